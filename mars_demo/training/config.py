"""The settings of a training run: those of transformers' Trainer, and those of MARS."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import TrainingArguments

from mars_demo.core.modes import objectives
from mars_demo.models.device import best, multiplies_bfloat16
from mars_demo.training.two_streams import SLOT_DECAY

ATTENTIONS = ("flex", "sdpa")


@dataclass
class MarsConfig(TrainingArguments):
    """The `TrainingArguments` of a `MarsTrainer`, with fields and defaults for MARS.

    objective: `mars`; `ar`, supervised fine-tuning on the clean stream; or `block-diffusion`.
    block_size: masks per block.
    sft_weight: λ, the weight of the clean stream's cross-entropy.
    slot_decay: γ; slot s ≥ 2 has the loss weight γ^(s - 2).
    fixed_blocks: whether blocks begin with the answer, without a random block phase.
    reference, reference_weight: a model whose distributions the clean stream should match, and μ, the
        weight of KL(reference ‖ clean).
    data: training data as `corpus.source` reads it, if the trainer is given none.
    max_length: longer conversations are left out.
    batch_tokens: clean positions per batch of conversations of about one length, padding included.
    packed: positions of both streams per batch of a constant shape instead, for GPUs; None for batches of
        one length, except with FlexAttention, which needs a constant shape.
    attention: `flex` or `sdpa`; None for the faster one.
    muon_learning_rate: the learning rate of the hidden matrices with Muon; None for AdamW alone.
    minutes: the time to train, from the end of the first step, which compiles; the learning rate then
        follows the share of this time instead of that of `max_steps`, and resumed runs keep their share.
    compile: whether to compile layers and the head's loss; needs a C++ compiler.

    Raises:
        ValueError: if a setting is out of range.
    """

    objective: str = "mars"
    block_size: int = 8
    sft_weight: float = 1.0
    slot_decay: float = SLOT_DECAY
    fixed_blocks: bool = False
    reference: str | None = None
    reference_weight: float = 0.0
    data: str = "tasks"
    max_length: int = 512
    batch_tokens: int = 8192
    packed: int | None = None
    attention: str | None = None
    muon_learning_rate: float | None = None  # from scratch, Muon halves the steps
    minutes: float | None = None
    compile: bool = False

    # Other defaults than those of transformers.
    max_steps: int = 1000
    weight_decay: float = 0.01
    adam_beta2: float = 0.95
    warmup_steps: float = 0.03  # share of the run
    lr_scheduler_type: str = "cosine_with_min_lr"
    lr_scheduler_kwargs: dict[str, Any] | str | None = field(default_factory=lambda: {"min_lr_rate": 0.0})
    bf16: bool | None = None  # None: where it is faster
    seed: int = 0
    logging_steps: float = 1
    logging_nan_inf_filter: bool = False  # it would wait for the device at every step
    save_steps: float = 100
    save_total_limit: int | None = 1
    disable_tqdm: bool | None = True  # it would print each step's metrics
    use_cache: bool = True  # stored in the checkpoint's config
    remove_unused_columns: bool | None = False

    def __post_init__(self) -> None:
        self.use_cpu = self.use_cpu or best() == "cpu"  # transformers rejects bfloat16 without it
        if self.bf16 is None:  # autocast keeps float32 weights
            self.bf16 = multiplies_bfloat16("cpu" if self.use_cpu else best())
        if self.minutes is not None:
            self.max_steps = 10**9  # the clock ends the run
        self._check_ranges()
        super().__post_init__()

    def _check_ranges(self) -> None:
        if self.objective not in objectives():
            raise ValueError(
                f"Unknown objective {self.objective!r}. Choose from {', '.join(objectives())}."
            )
        if self.attention not in (None, *ATTENTIONS):
            raise ValueError(f"Unknown attention {self.attention!r}. Choose from {', '.join(ATTENTIONS)}.")
        if not 2 <= self.block_size <= 32:
            raise ValueError(f"The block size must be from 2 to 32, not {self.block_size}.")
        for name in ("max_steps", "gradient_accumulation_steps", "batch_tokens", "max_length", "packed"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}.")
        for name in ("sft_weight", "reference_weight"):
            if (value := getattr(self, name)) < 0:
                raise ValueError(f"{name} must not be negative: {value}.")
        if self.minutes is not None and not self.minutes > 0:
            raise ValueError(f"minutes must be above 0, not {self.minutes:g}.")
        if not 0 < self.slot_decay <= 1:
            raise ValueError(f"The slot decay must be above 0 and at most 1, not {self.slot_decay:g}.")
        if self.slot_decay < 1 and self.objective != "mars":
            raise ValueError(f"A slot decay needs the objective mars, not {self.objective}.")
        if bool(self.reference) != bool(self.reference_weight):
            raise ValueError(
                "Set both a reference and a reference weight above 0, or neither, not "
                f"{self.reference or 'none'} and {self.reference_weight:g}."
            )
        if self.reference and self.objective == "block-diffusion":
            raise ValueError("Block diffusion has no loss on the clean stream, so it takes no reference.")

    def record(self) -> dict[str, Any]:
        """Return the settings that describe a training, for its record and its model card."""
        names = (
            "objective", "block_size", "sft_weight", "slot_decay", "fixed_blocks", "reference",
            "reference_weight", "data", "minutes", "batch_tokens", "packed", "gradient_accumulation_steps",
            "max_length", "learning_rate", "lr_scheduler_kwargs", "muon_learning_rate", "warmup_steps",
            "weight_decay", "compile", "seed",
        )  # fmt: skip
        steps = None if self.minutes else self.max_steps
        return {name: getattr(self, name) for name in names} | {"steps": steps}
