"""The training loop: a generator that yields the metrics of each step. It can be cut and resumed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase, get_cosine_schedule_with_warmup

from mars_demo import checkpoints, corpus
from mars_demo.corpus import Conversation
from mars_demo.objective import Batch, Objective, ar_batch, diffusion_batch, mars_batch

MAX_SLOTS = 33  # of the largest block size
OBJECTIVES = ("ar", "mars", "block-diffusion")


@dataclass(frozen=True)
class Recipe:
    """Everything a training run is made of, beside its base.

    `batch_tokens` bounds the padded clean stream of a batch; a step takes `accumulate` batches on each
    process. `sft_weight`, `kl_weight`, `fixed_blocks` and `whole_copy` are explained in `objective`. With
    `muon_learning_rate` the hidden matrices are trained by Muon and only the rest by AdamW: from nothing
    that takes less than half the steps.
    """

    objective: str = "mars"
    block_size: int = 8
    sft_weight: float = 1.0
    kl_weight: float = 0.0
    fixed_blocks: bool = False
    whole_copy: bool = False
    data: str = "tasks"
    steps: int = 1000
    batch_tokens: int = 8192
    accumulate: int = 1
    max_length: int = 512
    learning_rate: float = 5e-5
    muon_learning_rate: float | None = None
    warmup: float = 0.03
    weight_decay: float = 0.01
    seed: int = 0
    save_every: int = 100

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(
                f"No objective called {self.objective!r}: allowed are {', '.join(OBJECTIVES)}."
            )
        if not 2 <= self.block_size <= 32:
            raise ValueError(f"The block size must be from 2 to 32, not {self.block_size}.")
        for name in ("steps", "accumulate", "batch_tokens", "max_length", "save_every"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name.replace('_', ' ').capitalize()} must be at least 1, not {getattr(self, name)}."
                )
        for name in ("sft_weight", "kl_weight"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"The {name.replace('_', ' ')} must not be negative: {getattr(self, name)}."
                )


@dataclass(frozen=True)
class Metrics:
    """One optimizer step. Losses are nats per token; `seconds` is the time since this process began
    training, `tokens` the real clean tokens seen since step 1. `slots` has, for each slot of the window
    from the first, the mean loss and the share of right guesses, of this step's targets."""

    step: int
    steps: int
    loss: float
    clean: float | None
    noisy: float | None
    kl: float | None
    slots: list[tuple[float, float]]
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float

    @property
    def losses(self) -> dict[str, float]:
        """Those there are of clean, noisy and kl."""
        named = {name: getattr(self, name) for name in ("clean", "noisy", "kl")}
        return {name: loss for name, loss in named.items() if loss is not None}

    def line(self) -> str:
        return json.dumps({k: v for k, v in asdict(self).items() if v is not None})


def train(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    output: Path,
    resume: bool = False,
) -> Iterator[Metrics]:
    """Train `model` in place and save it as a checkpoint folder in `output` when the last step is done.

    Every `save_every` steps the whole state goes to `output/training_state.pt`, atomically; with
    `resume` the run goes on from there, to the same losses as a run that was never cut. A line of
    metrics per step is kept in `output/metrics.jsonl`.

    Raises:
        ValueError: if the tokenizer has no mask token, the data are unusable, or a loss is not finite.
    """
    set_seed(recipe.seed)
    # Autocast keeps float32 weights and does the matrix products in bfloat16, about twice as fast here.
    accelerator = Accelerator(mixed_precision="bf16")
    if recipe.objective != "ar" and tokenizer.mask_token_id is None:
        raise ValueError("This checkpoint's tokenizer has no mask token to train with.")
    optimizers = make_optimizers(model, recipe)
    warmup = round(recipe.warmup * recipe.steps)
    schedulers = [get_cosine_schedule_with_warmup(o, warmup, recipe.steps) for o in optimizers]
    model.train()
    objective = accelerator.prepare(Objective(model, recipe.sft_weight, recipe.kl_weight))
    optimizers = [accelerator.prepare(optimizer) for optimizer in optimizers]

    output.mkdir(parents=True, exist_ok=True)
    state_file, metrics_file = output / "training_state.pt", output / "metrics.jsonl"
    first_step = tokens = 0
    if resume and state_file.exists():
        state = torch.load(state_file, weights_only=True)
        accelerator.unwrap_model(objective).load_state_dict(state["objective"])
        for key, parts in (("optimizers", optimizers), ("schedulers", schedulers)):
            for part, saved in zip(parts, state[key], strict=True):
                part.load_state_dict(saved)
        first_step, tokens = state["step"], state["tokens"]
        kept = metrics_file.read_text().splitlines()[:first_step]
        metrics_file.write_text("".join(line + "\n" for line in kept))
    else:
        metrics_file.write_text("")

    pool = corpus.source(recipe.data, recipe.seed)
    stream = corpus.batches(pool, tokenizer, recipe.batch_tokens, recipe.max_length, recipe.seed)
    processes, rank = accelerator.num_processes, accelerator.process_index
    started = time.monotonic()
    for step in itertools.count(1):
        # Every process reads the same stream and takes its share of it.
        group = list(itertools.islice(stream, recipe.accumulate * processes))
        if step <= first_step:
            continue
        drawn = [
            make_batch(c, recipe, tokenizer, step, i) for i, c in enumerate(group) if i % processes == rank
        ]
        batches = [batch.to(accelerator.device) for batch in drawn]
        # Means over all targets of the step, whoever holds them: as one large batch on one process.
        totals = accelerator.reduce(sum(batch.totals for batch in batches), "sum") / processes
        parts = []
        for batch in batches:
            last = batch is batches[-1]
            with contextlib.nullcontext() if last else accelerator.no_sync(objective):
                losses = objective(batch, totals)
                parts.append({name: loss.detach() for name, loss in losses.items()})
                accelerator.backward(losses["loss"])
        losses = {name: accelerator.reduce(_sum(parts, name), "mean") for name in _names(recipe)}
        if not torch.isfinite(losses["loss"]):
            raise ValueError(
                f"The loss is not finite at step {step}; a lower learning rate than "
                f"{recipe.learning_rate:g} may help."
            )
        grad_norm = accelerator.clip_grad_norm_(objective.parameters(), 1.0)
        learning_rate = schedulers[0].get_last_lr()[0]
        for optimizer, scheduler in zip(optimizers, schedulers):
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

        tokens += sum(len(conversation.ids) for conversations in group for conversation in conversations)
        metrics = Metrics(
            step=step,
            steps=recipe.steps,
            learning_rate=learning_rate,
            grad_norm=float(grad_norm),
            tokens=tokens,
            seconds=time.monotonic() - started,
            slots=[
                (nats / count, right / count) for count, nats, right in losses["slots"].tolist() if count
            ],
            **{
                name: losses[name].item() if name in losses else None
                for name in ("loss", "clean", "noisy", "kl")
            },
        )
        with metrics_file.open("a") as file:
            file.write(metrics.line() + "\n")
        if step % recipe.save_every == 0 and step < recipe.steps:
            state = {
                "objective": accelerator.unwrap_model(objective).state_dict(),
                "optimizers": [optimizer.state_dict() for optimizer in optimizers],
                "schedulers": [scheduler.state_dict() for scheduler in schedulers],
                "step": step,
                "tokens": tokens,
            }
            torch.save(state, state_file.with_suffix(".tmp"))
            os.replace(state_file.with_suffix(".tmp"), state_file)
        yield metrics
        if step == recipe.steps:
            break

    block_size = None if recipe.objective == "ar" else recipe.block_size
    checkpoints.save(model, tokenizer, output, block_size, recipe.objective)
    state_file.unlink(missing_ok=True)


def make_batch(
    conversations: list[Conversation],
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    step: int,
    index: int,
) -> Batch:
    """The batch that is the `index`-th of a step, the same in every run of the recipe, resumed or not."""
    pad_id, mask_id = tokenizer.pad_token_id, tokenizer.mask_token_id
    rng = random.Random(f"{recipe.seed}-{step}-{index}" if index else f"{recipe.seed}-{step}")
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
    )


def _names(recipe: Recipe) -> list[str]:
    """The losses that every batch of this recipe has."""
    return {
        "ar": ["loss", "clean", "slots"],
        "mars": ["loss", "clean", "noisy", "slots"] + ["kl"] * bool(recipe.kl_weight),
        "block-diffusion": ["loss", "noisy", "slots"],
    }[recipe.objective]


def _sum(parts: list[dict[str, Tensor]], name: str) -> Tensor:
    """The sum over a step's batches, of which some may have fewer slots than others or lack a stream."""
    found = [part[name] for part in parts if name in part]
    if name != "slots":
        return sum(found) if found else torch.zeros_like(parts[0]["loss"])
    total = found[0].new_zeros(MAX_SLOTS, 3)
    for table in found:
        total[: len(table)] += table
    return total


def make_optimizers(model: PreTrainedModel, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the hidden matrices behind AdamW for embeddings and norms."""
    matrices = []
    if recipe.muon_learning_rate is not None:
        embedding = model.get_input_embeddings().weight
        output = model.get_output_embeddings().weight
        matrices = [p for p in model.parameters() if p.ndim == 2 and p is not embedding and p is not output]
    chosen = {id(p) for p in matrices}
    adamw = torch.optim.AdamW(
        [p for p in model.parameters() if id(p) not in chosen],
        lr=recipe.learning_rate,
        betas=(0.9, 0.95),
        weight_decay=recipe.weight_decay,
    )
    if not matrices:
        return [adamw]
    muon = torch.optim.Muon(
        matrices,
        lr=recipe.muon_learning_rate,
        weight_decay=recipe.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return [adamw, muon]
