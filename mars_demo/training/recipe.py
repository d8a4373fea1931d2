"""The settings of a training run, everything except its base."""

from __future__ import annotations

from dataclasses import dataclass

OBJECTIVES = ("ar", "mars", "block-diffusion")


@dataclass(frozen=True)
class Recipe:
    """The settings of a training run. `objective` explains the weights of its losses and its blocks.

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
    batch_tokens: int = 8192  # of the clean stream of a batch, padding included
    accumulate: int = 1  # batches of a step on each process
    max_length: int = 512
    learning_rate: float = 5e-5
    muon_learning_rate: float | None = None  # of hidden matrices; from scratch it halves the steps
    mask_learning_rate: float | None = None  # of a vector of its own for the mask token
    mask_head_start: float = 0.0  # share of the run in which that vector learns alone
    final_learning_rate: float = 0.0  # at the end of a cosine
    warmup: float = 0.03  # share of the run
    weight_decay: float = 0.01
    decay_vectors: bool = True  # whether norms and biases decay too
    gradient_checkpointing: bool = False
    compile: bool = False  # the layers and the head's loss, when they are first used
    lora: int | None = None  # the rank of adapters to train instead of the weights
    seed: int = 0
    save_every: int = 100  # steps between saved states; 0 for none at all

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
                "A reference needs a weight above 0, and such a weight a reference, not "
                f"{self.reference_weight:g} and {self.reference or 'none'}."
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
                raise ValueError("A head start of the mask needs a learning rate of the mask.")
        elif not self.mask_learning_rate > 0:
            raise ValueError(f"The mask's learning rate must be above 0, not {self.mask_learning_rate}.")
        elif self.objective == "ar" or self.lora:
            raise ValueError(
                "A learning rate of the mask needs an objective with masks, and no LoRA, which trains the "
                "mask's embedding itself."
            )


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
