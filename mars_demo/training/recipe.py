"""The settings of a training run, except its base."""

from __future__ import annotations

from dataclasses import dataclass

OBJECTIVES = ("ar", "mars", "block-diffusion")


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run; see `objective` for the loss weights and blocks.

    Raises:
        ValueError: if a setting is out of range.
    """

    objective: str = "mars"
    block_size: int = 8
    sft_weight: float = 1.0
    kl_weight: float = 0.0
    reference: str | None = None  # a model whose distributions the clean stream should match
    reference_weight: float = 0.0
    fixed_blocks: bool = False
    whole_copy: bool = False
    slot_decay: float = 1.0
    data: str = "tasks"
    steps: int = 1000
    batch_tokens: int = 8192  # clean positions per batch, padding included
    accumulate: int = 1  # batches per step on each process
    max_length: int = 512
    learning_rate: float = 5e-5
    muon_learning_rate: float | None = None  # for hidden matrices; from scratch, Muon halves the steps
    mask_learning_rate: float | None = None  # for a separate mask vector
    mask_head_start: float = 0.0  # share of the run in which only that vector learns
    final_learning_rate: float = 0.0  # at the end of a cosine
    warmup: float = 0.03  # share of the run
    weight_decay: float = 0.01
    decay_vectors: bool = True  # whether norms and biases decay too
    gradient_checkpointing: bool = False
    compile: bool = False  # the layers and the head's loss
    lora: int | None = None  # the rank of adapters, trained instead of the weights
    seed: int = 0
    save_every: int = 100  # steps between saved states; 0 saves none

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"Unknown objective {self.objective!r}. Choose from {', '.join(OBJECTIVES)}.")
        if not 2 <= self.block_size <= 32:
            raise ValueError(f"The block size must be from 2 to 32, not {self.block_size}.")
        for name in ("steps", "accumulate", "batch_tokens", "max_length"):
            if (value := getattr(self, name)) < 1:
                raise ValueError(f"{_words(name)} must be at least 1, not {value}.")
        for name in ("sft_weight", "kl_weight", "reference_weight", "final_learning_rate", "save_every"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{_words(name)} must not be negative: {value}.")
        if self.lora is not None and self.lora < 1:
            raise ValueError(f"The rank of LoRA must be at least 1, not {self.lora}.")
        if not 0 < self.slot_decay <= 1:
            raise ValueError(f"The slot decay must be above 0 and at most 1, not {self.slot_decay:g}.")
        if self.slot_decay < 1 and self.objective != "mars":
            raise ValueError(f"A slot decay needs the objective mars, not {self.objective}.")
        self._check_mask()
        if bool(self.reference) != bool(self.reference_weight):
            raise ValueError(
                "Set both a reference and a reference weight above 0, or neither, not "
                f"{self.reference or 'none'} and {self.reference_weight:g}."
            )
        if self.reference and self.objective == "block-diffusion":
            raise ValueError("Block diffusion has no loss on the clean stream, so it takes no reference.")

    def _check_mask(self) -> None:
        if not 0 <= self.mask_head_start < 1:
            raise ValueError(
                f"The mask's head start must be a share from 0 to below 1, not {self.mask_head_start}."
            )
        if self.mask_learning_rate is None:
            if self.mask_head_start:
                raise ValueError("A head start of the mask needs a mask learning rate.")
        elif not self.mask_learning_rate > 0:
            raise ValueError(f"The mask's learning rate must be above 0, not {self.mask_learning_rate}.")
        elif self.objective == "ar" or self.lora:
            raise ValueError(
                "A mask learning rate needs an objective with masks and no LoRA, which trains the mask's "
                "embedding itself."
            )


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
