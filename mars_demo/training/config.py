"""The settings of a training run: those of transformers' Trainer, and those of MARS."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from transformers import TrainingArguments

from mars_demo.core.modes import objectives
from mars_demo.models.device import best, multiplies_bfloat16
from mars_demo.training.two_streams import SLOT_DECAY

ATTENTIONS = ("flex", "sdpa")
_THEIRS = {one.name: one.metadata for one in fields(TrainingArguments)}


def setting(default: Any, about: str) -> Any:
    """Return a field with a help text, which the command line shows."""
    return field(default=default, metadata={"help": about})


def changed(name: str, default: Any) -> Any:
    """Return a field of `TrainingArguments` with another default."""
    return field(default=default, metadata=_THEIRS[name])


@dataclass
class MarsConfig(TrainingArguments):
    """The `TrainingArguments` of a `MarsTrainer`, with fields and defaults for MARS.

    The help texts of the fields explain them.

    Raises:
        ValueError: if a setting is out of range.
    """

    objective: str = setting("mars", f"training objective: {', '.join(objectives())}")
    block_size: int = setting(8, "masks per block, 2 to 32")
    sft_weight: float = setting(1.0, "λ, the weight of the clean stream's cross-entropy")
    slot_decay: float = setting(SLOT_DECAY, "γ: slot s ≥ 2 has the loss weight γ^(s - 2)")
    fixed_blocks: bool = setting(False, "begin blocks with the answer, without a random block phase")
    reference: str | None = setting(None, "model whose distributions the clean stream should match")
    reference_weight: float = setting(0.0, "μ, the weight of KL(reference ‖ clean)")
    data: str = setting(
        "tasks", "tasks, skills, tasks:NAME,NAME, FILE.jsonl or a hub id, several with +, or self alone"
    )
    max_length: int = setting(512, "leave out longer conversations")
    batch_tokens: int = setting(
        8192, "clean positions per batch of conversations of about one length, padding included"
    )
    packed: int | None = setting(
        None,
        "positions of both streams per batch of a constant shape instead, for GPUs; FlexAttention needs it",
    )
    attention: str | None = setting(None, "flex or sdpa; the faster one if it is not given")
    muon_learning_rate: float | None = setting(  # from scratch, Muon halves the steps
        None, "learning rate of the hidden matrices with Muon; AdamW alone if it is not given"
    )
    minutes: float | None = setting(
        None,
        "time to train instead of max_steps, from the end of the first step, which compiles; the learning "
        "rate follows the share of this time, and resumed runs keep their share",
    )
    compile: bool = setting(False, "compile the layers and the head's loss; needs a C++ compiler")

    max_steps: int = changed("max_steps", 1000)
    weight_decay: float = changed("weight_decay", 0.01)
    adam_beta2: float = changed("adam_beta2", 0.95)
    warmup_steps: float = changed("warmup_steps", 0.03)  # share of the run
    lr_scheduler_type: str = changed("lr_scheduler_type", "cosine_with_min_lr")
    lr_scheduler_kwargs: dict[str, Any] | str | None = changed("lr_scheduler_kwargs", '{"min_lr_rate": 0}')
    bf16: bool | None = changed("bf16", None)  # None: where it is faster
    seed: int = changed("seed", 0)
    logging_steps: float = changed("logging_steps", 1)
    logging_nan_inf_filter: bool = changed("logging_nan_inf_filter", False)  # it would wait for the device
    save_steps: float = changed("save_steps", 100)
    save_total_limit: int | None = changed("save_total_limit", 1)
    disable_tqdm: bool | None = changed("disable_tqdm", True)  # it would print each step's metrics
    use_cache: bool = changed("use_cache", True)  # stored in the checkpoint's config
    remove_unused_columns: bool | None = changed("remove_unused_columns", False)

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
