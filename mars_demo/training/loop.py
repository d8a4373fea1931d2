"""The training loop: a resumable generator of the metrics of each step."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import logging
import math
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from accelerate import Accelerator, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin, set_seed
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.fsdp import MixedPrecisionPolicy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from mars_demo.export.save import save_checkpoint
from mars_demo.models.device import best, multiplies_bfloat16
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.models.memory import is_short
from mars_demo.scheduler import SCHEDULER
from mars_demo.training import corpus
from mars_demo.training.attention import attending, fastest
from mars_demo.training.corpus import Conversation
from mars_demo.training.mask_vector import MaskVector
from mars_demo.training.objective import (
    Batch,
    Objective,
    Reference,
    ar_batch,
    diffusion_batch,
    mars_batch,
)
from mars_demo.training.optimizers import add_adapters, make_optimizers, make_schedulers
from mars_demo.training.recipe import Recipe
from mars_demo.training.states import Log, Progress, States

# It warns at every saved state that the tied head is stored once, which is intended.
logging.getLogger("accelerate.utils").setLevel(logging.ERROR)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # disk full, over quota, file too large
FULL_WORDS = (  # messages of safetensors and torch, which set no errno
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "PytorchStreamWriter failed writing file",
    "file write failed",
)


@dataclass(frozen=True)
class Metrics:
    """The metrics of one optimizer step.

    Losses are nats per token, `seconds` the time since this process began training, `tokens` the clean
    tokens seen since step 1, without padding. `slots` has, for each slot of the window, the mean loss and
    the accuracy on this step's targets.
    """

    step: int
    steps: int
    loss: float
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    slots: list[tuple[float, float]]
    clean: float | None = None
    noisy: float | None = None
    kl: float | None = None
    reference: float | None = None

    @property
    def losses(self) -> dict[str, float]:
        """The losses of this step: those of clean, noisy, kl and reference that are computed."""
        named = {name: getattr(self, name) for name in ("clean", "noisy", "kl", "reference")}
        return {name: loss for name, loss in named.items() if loss is not None}

    def line(self) -> str:
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    output: Path,
    resume: bool = False,
    pace: Callable[[], float] = lambda: 1.0,
) -> Iterator[Metrics]:
    """Train `model` in place and save it as a checkpoint folder in `output` after the last step.

    Every `save_every` steps, and when the generator is closed, the whole state is saved to a folder in
    `output`. With `resume` the run continues from there, with the same losses as an uninterrupted run; a
    finished run has no more steps. `output/metrics.jsonl` has a line of metrics per step. `pace` is read at
    every step and multiplies the scheduled learning rates. A step takes one turn of the scheduler, so that
    other visitors' runs in this process go on between two steps.

    Under `accelerate launch` every process runs this; the main process writes.

    Raises:
        ValueError: if the data cannot be used, there is no room for a mask token, a loss is not finite, or
            memory or the disk runs out. The last saved state is kept.
    """
    trainer = Trainer(model, tokenizer, recipe, output)
    if resume:
        if not trainer.states.exist() and is_finished(output, recipe.steps):
            trainer.states.clear()  # a process may have stopped while removing them
            return
        trainer.states.load()
    log = Log(output / "metrics.jsonl", trainer.progress.step, trainer.accelerator.is_main_process)
    groups = trainer.groups()
    for _ in range(trainer.progress.step):
        next(groups)
    started = time.monotonic()
    with _one_sentence(trainer):
        try:
            for step in range(trainer.progress.step + 1, recipe.steps + 1):
                group = next(groups)
                with SCHEDULER.turn():
                    metrics = trainer.step(step, group, pace(), started)
                log.add(metrics.line())
                if recipe.save_every and step % recipe.save_every == 0 and step < recipe.steps:
                    trainer.states.save(step)
                yield metrics
        except GeneratorExit:
            if recipe.save_every:
                trainer.states.save(trainer.progress.step)
            raise
        trainer.save()


def is_finished(output: Path, steps: int) -> bool:
    """Return whether a run of `steps` steps has saved its checkpoint in `output`."""
    return Log.steps(output / "metrics.jsonl") == steps and (output / "config.json").exists()


@contextlib.contextmanager
def _one_sentence(trainer: Trainer) -> Iterator[None]:
    """Turn errors about memory or disk space into a ValueError with one sentence."""
    try:
        yield
    except (MemoryError, OSError, RuntimeError, SafetensorError) as error:
        step, message = trainer.progress.step + 1, str(error)
        if is_short(error):
            raise ValueError(
                f"Out of memory at step {step}. Batches of less than {trainer.recipe.batch_tokens} tokens, "
                "gradient checkpointing or LoRA may help."
            ) from error
        if getattr(error, "errno", None) in FULL or any(words in message for words in FULL_WORDS):
            raise ValueError(
                f"The disk is full at step {step}. Free some space and resume from the last saved state."
            ) from error
        raise


def make_accelerator() -> Accelerator:
    """Return the accelerator of this run, with the processes that `accelerate launch` has started.

    Raises:
        ValueError: if weights are to be sharded by FSDP version 1.
    """
    # Autocast keeps float32 weights and computes matrix products in bfloat16 where that is faster.
    fast = multiplies_bfloat16(best())
    use_fsdp = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    sharding = _sharding(fast) if use_fsdp else None
    accelerator = Accelerator(mixed_precision="bf16" if fast else "no", fsdp_plugin=sharding)
    if sharding and accelerator.distributed_type == DistributedType.MULTI_CPU:
        # torch can shard weights over CPU processes, but accelerate never requests it.
        accelerator.state.fsdp_plugin = sharding
        accelerator.state.distributed_type = PartialState().distributed_type = DistributedType.FSDP
    return accelerator


def _sharding(fast: bool) -> FullyShardedDataParallelPlugin:
    """Return the settings of FSDP; the others are those of `accelerate launch`.

    accelerate's own would round inputs and outputs of the objective to bfloat16, which are its counts and
    losses, and sum gradients in bfloat16. Its loading for little memory would separate tied weights.
    """
    if os.environ.get("FSDP_VERSION") != "2":
        raise ValueError("Training needs version 2 of FSDP: set fsdp_version to 2.")
    return FullyShardedDataParallelPlugin(
        mixed_precision_policy=MixedPrecisionPolicy(
            param_dtype=torch.bfloat16 if fast else None,
            reduce_dtype=torch.float32,
            cast_forward_inputs=False,
        ),
        cpu_ram_efficient_loading=False,
    )


def check_compiler() -> None:
    """Check that torch can find a C++ compiler.

    Raises:
        ValueError: if it cannot.
    """
    compilers = [os.environ["CXX"]] if "CXX" in os.environ else ["g++", "clang++", "cl"]
    if not any(map(shutil.which, compilers)):
        raise ValueError(
            f"Compiling needs a C++ compiler, but {' or '.join(compilers)} is not installed. "
            "Install one, or train without compiling."
        )


class Trainer:
    """A model with its objective, optimizers and schedules, on one or several processes."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, output: Path
    ):
        set_seed(recipe.seed)
        self.model, self.tokenizer, self.recipe, self.output = model, tokenizer, recipe, output
        self.accelerator = make_accelerator()
        if self._is_spread and (recipe.muon_learning_rate or recipe.mask_learning_rate or recipe.lora):
            raise ValueError("FSDP supports only AdamW, without Muon, LoRA or a separate mask vector.")
        if recipe.objective != "ar":
            ensure_mask(model, tokenizer)
        self.pools = corpus.source(recipe.data, recipe.seed)
        self.adapted = add_adapters(model, recipe.lora, tokenizer.mask_token_id) if recipe.lora else None
        self.attention = fastest(self.accelerator.device)
        if recipe.gradient_checkpointing:
            model.activation_checkpointing_enable()
        model.train()
        self.mask_vector = None
        if recipe.mask_learning_rate:
            self.mask_vector = MaskVector(model.get_input_embeddings(), tokenizer.mask_token_id)
        optimizers = make_optimizers(model, recipe, self.mask_vector)
        self.schedulers = make_schedulers(optimizers, recipe, self.mask_vector)
        objective = Objective(
            model, recipe.sft_weight, recipe.kl_weight, self.mask_vector, self._reference()
        )
        if recipe.compile:
            check_compiler()
            objective.compile()
        self.objective, *self.optimizers = self.accelerator.prepare(objective, *optimizers)
        self.progress = Progress()
        self.accelerator.register_for_checkpointing(self.progress, *self.schedulers)
        self.states = States(self.accelerator, output)

    @property
    def _is_spread(self) -> bool:
        """Return whether the weights are sharded over the processes."""
        return self.accelerator.distributed_type == DistributedType.FSDP

    def _reference(self) -> Reference | None:
        if not self.recipe.reference:
            return None
        loaded = load_checkpoint(self.recipe.reference, str(self.accelerator.device), torch.float32)
        model, vocabulary = loaded.model, self.tokenizer.get_vocab()
        same = all(vocabulary.get(token, id) == id for token, id in loaded.tokenizer.get_vocab().items())
        if model.config.vocab_size != self.model.config.vocab_size or not same:
            raise ValueError(
                f"The reference {self.recipe.reference} and the trained model have different vocabularies. "
                "Use the model's own base."
            )
        model.requires_grad_(False).set_attn_implementation(self.attention)
        return Reference(model, self.recipe.reference_weight)

    def groups(self) -> Iterator[list[list[Conversation]]]:
        """Return an iterator over steps: the batches of each, as lists of conversations."""
        recipe = self.recipe
        stream = corpus.batches(
            self.pools, self.tokenizer, recipe.batch_tokens, recipe.max_length, recipe.seed
        )
        size = recipe.accumulate * self.accelerator.num_processes
        return iter(lambda: list(itertools.islice(stream, size)), [])

    def step(self, step: int, group: list[list[Conversation]], pace: float, started: float) -> Metrics:
        """Take one optimizer step on a group of batches.

        Raises:
            ValueError: if the loss is not finite.
        """
        with attending(self.model, self.attention):
            losses = self._accumulate(step, group)
        grad_norm = self.accelerator.clip_grad_norm_(self.objective.parameters(), 1.0)
        for name, value in (("loss", losses["loss"]), ("gradient", grad_norm)):
            if not math.isfinite(value):  # keep the weights and saved states finite
                raise ValueError(
                    f"The {name} is not finite at step {step}; a lower learning rate than "
                    f"{self.recipe.learning_rate:g} may help."
                )
        learning_rate = self.schedulers[0].get_last_lr()[0] * pace
        for optimizer, scheduler in zip(self.optimizers, self.schedulers):
            for parameters, scheduled in zip(optimizer.param_groups, scheduler.get_last_lr()):
                parameters["lr"] = scheduled * pace
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        self.progress.step = step
        self.progress.tokens += sum(len(c.ids) for conversations in group for c in conversations)
        return Metrics(
            step=step,
            steps=self.recipe.steps,
            learning_rate=learning_rate,
            grad_norm=float(grad_norm),
            tokens=self.progress.tokens,
            seconds=time.monotonic() - started,
            slots=[(nats / n, right / n) for n, nats, right in losses.pop("slots").tolist() if n],
            **{name: loss.item() for name, loss in losses.items()},
        )

    def save(self) -> None:
        """Write the checkpoint folder and remove the saved states."""
        if self.mask_vector:
            self.mask_vector.merge()
        model = self.adapted.merge_and_unload() if self.adapted else self.model
        accelerator = self.accelerator
        accelerator.wait_for_everyone()
        weights = None
        if self._is_spread:
            gathered = accelerator.get_state_dict(self.objective)
            weights = {name.removeprefix("model."): weight for name, weight in gathered.items()}
        if accelerator.is_main_process:
            block_size = None if self.recipe.objective == "ar" else self.recipe.block_size
            save_checkpoint(model, self.tokenizer, self.output, block_size, self.recipe.objective, weights)
            self.states.clear()

    def _accumulate(self, step: int, group: list[list[Conversation]]) -> dict[str, Tensor]:
        """Compute a step's gradients and return its losses; the processes share the batches.

        Losses are means over all targets of the step on all processes, as for one large batch.
        """
        accelerator, processes = self.accelerator, self.accelerator.num_processes
        batches = [
            make_batch(group[i], self.recipe, self.tokenizer, step, i)
            for i in range(accelerator.process_index, len(group), processes)
        ]
        # DDP averages gradients over the processes, hence the division.
        totals = sum(batch.totals for batch in batches).to(accelerator.device)
        totals = accelerator.reduce(totals, "sum") / processes
        sums: dict[str, Tensor] = {}
        for batch in batches:
            last = batch is batches[-1]
            with contextlib.nullcontext() if last else accelerator.no_sync(self.objective):
                losses = self.objective(batch, totals)
                accelerator.backward(losses["loss"])
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0) + loss.detach()
        return {name: accelerator.reduce(loss, "mean") for name, loss in sums.items()}


def make_batch(
    conversations: list[Conversation],
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    step: int,
    index: int,
) -> Batch:
    """Return the `index`-th batch of a step, the same in every run of the recipe."""
    pad_id, mask_id = tokenizer.pad_token_id, tokenizer.mask_token_id
    rng = random.Random(f"{recipe.seed}-{step}-{index}")
    if recipe.objective == "ar":
        return ar_batch(conversations, pad_id)
    if recipe.objective == "block-diffusion":
        return diffusion_batch(conversations, recipe.block_size, mask_id, pad_id, rng)
    return mars_batch(
        conversations,
        recipe.block_size,
        mask_id,
        pad_id,
        rng,
        fixed_blocks=recipe.fixed_blocks,
        whole_copy=recipe.whole_copy,
        slot_decay=recipe.slot_decay,
    )
