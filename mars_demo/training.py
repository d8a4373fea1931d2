"""The training loop: a generator that yields the metrics of each step. It can be cut and resumed."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase, get_cosine_schedule_with_warmup

from mars_demo import checkpoints, corpus
from mars_demo.corpus import Conversation
from mars_demo.objective import Batch, Objective, ar_batch, diffusion_batch, mars_batch

if TYPE_CHECKING:
    from peft import PeftModel

# It warns of the tied head at every saved state; that is stored once on purpose.
logging.getLogger("accelerate.utils").setLevel(logging.ERROR)

OBJECTIVES = ("ar", "mars", "block-diffusion")
UNFINISHED = "unfinished-state"  # the folder of a state while it is written


@dataclass(frozen=True)
class Recipe:
    """Everything a training run is made of, beside its base.

    `batch_tokens` bounds the padded clean stream of a batch; a step takes `accumulate` batches on each
    process. `sft_weight`, `kl_weight`, `fixed_blocks` and `whole_copy` are explained in `objective`. With
    `muon_learning_rate` the hidden matrices are trained by Muon and only the rest by AdamW: from nothing
    that takes less than half the steps. `lora` is the rank of adapters to train instead of the weights.
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
    gradient_checkpointing: bool = False
    lora: int | None = None
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
        if self.lora is not None and self.lora < 1:
            raise ValueError(f"The rank of LoRA must be at least 1, not {self.lora}.")
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
    learning_rate: float
    grad_norm: float
    tokens: int
    seconds: float
    slots: list[tuple[float, float]]
    clean: float | None = None
    noisy: float | None = None
    kl: float | None = None

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
    pace: Callable[[], float] = lambda: 1.0,
) -> Iterator[Metrics]:
    """Train `model` in place and save it as a checkpoint folder in `output` when the last step is done.

    Every `save_every` steps, and when the generator is closed, the whole state goes to a folder in
    `output`; with `resume` the run goes on from there, to the same losses as a run that was never cut. A
    line of metrics per step is kept in `output/metrics.jsonl`. `pace` is read at every step and multiplies
    the scheduled learning rates.

    Under `accelerate launch` every process runs this; the first one writes.

    Raises:
        ValueError: if the data are unusable, there is no room for a mask token, a loss is not finite, or
            memory runs out.
    """
    set_seed(recipe.seed)
    # Autocast keeps float32 weights and does the matrix products in bfloat16, about twice as fast here.
    accelerator = Accelerator(mixed_precision="bf16")
    if recipe.objective != "ar":
        checkpoints.ensure_mask(model, tokenizer)
    pool = corpus.source(recipe.data, recipe.seed)
    stream = corpus.batches(pool, tokenizer, recipe.batch_tokens, recipe.max_length, recipe.seed)
    adapted = add_adapters(model, recipe.lora, tokenizer.mask_token_id) if recipe.lora else None
    if accelerator.device.type == "cuda":
        model.set_attn_implementation("flex_attention")  # it has no backward pass on a CPU
    if recipe.gradient_checkpointing:
        model.activation_checkpointing_enable()
    model.train()
    optimizers = make_optimizers(model, recipe)
    warmup = round(recipe.warmup * recipe.steps)
    schedulers = [get_cosine_schedule_with_warmup(o, warmup, recipe.steps) for o in optimizers]
    objective = accelerator.prepare(Objective(model, recipe.sft_weight, recipe.kl_weight))
    optimizers = [accelerator.prepare(optimizer) for optimizer in optimizers]
    progress = Progress()
    accelerator.register_for_checkpointing(progress, *schedulers)
    states = States(accelerator, output)
    if resume:
        states.load()
    log = Log(output / "metrics.jsonl", progress.step, accelerator.is_main_process)

    size = recipe.accumulate * accelerator.num_processes
    groups = iter(lambda: list(itertools.islice(stream, size)), [])
    for _ in range(progress.step):
        next(groups)
    started = time.monotonic()
    try:
        for step in range(progress.step + 1, recipe.steps + 1):
            group = next(groups)
            losses = _accumulate(accelerator, objective, recipe, tokenizer, step, group)
            if not torch.isfinite(losses["loss"]):
                raise ValueError(
                    f"The loss is not finite at step {step}; a lower learning rate than "
                    f"{recipe.learning_rate:g} may help."
                )
            grad_norm = accelerator.clip_grad_norm_(objective.parameters(), 1.0)
            factor = pace()
            learning_rate = schedulers[0].get_last_lr()[0] * factor
            for optimizer, scheduler in zip(optimizers, schedulers):
                for parameters, scheduled in zip(optimizer.param_groups, scheduler.get_last_lr()):
                    parameters["lr"] = scheduled * factor
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            progress.step = step
            progress.tokens += sum(len(c.ids) for conversations in group for c in conversations)
            metrics = Metrics(
                step=step,
                steps=recipe.steps,
                learning_rate=learning_rate,
                grad_norm=float(grad_norm),
                tokens=progress.tokens,
                seconds=time.monotonic() - started,
                slots=[(nats / n, right / n) for n, nats, right in losses.pop("slots").tolist() if n],
                **{name: loss.item() for name, loss in losses.items()},
            )
            log.add(metrics)
            if step % recipe.save_every == 0 and step < recipe.steps:
                states.save(step)
            yield metrics
    except GeneratorExit:
        states.save(progress.step)
        raise
    except torch.OutOfMemoryError as error:
        raise ValueError(
            f"Out of memory at step {progress.step + 1}: smaller batches than {recipe.batch_tokens} "
            "tokens, gradient checkpointing or LoRA may help."
        ) from error

    if adapted:
        model = adapted.merge_and_unload()
    accelerator.wait_for_everyone()
    weights = accelerator.get_state_dict(objective) if accelerator.distributed_type == "FSDP" else None
    if accelerator.is_main_process:
        block_size = None if recipe.objective == "ar" else recipe.block_size
        checkpoints.save(model, tokenizer, output, block_size, recipe.objective, _unwrapped(weights))
        states.clear()


def _accumulate(
    accelerator: Accelerator,
    objective: nn.Module,
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    step: int,
    group: list[list[Conversation]],
) -> dict[str, Tensor]:
    """Gradients and losses of one step, each process taking its share of the step's batches.

    Losses are means over all targets of the step, whoever holds them: as one large batch on one process.
    """
    processes = accelerator.num_processes
    mine = range(accelerator.process_index, len(group), processes)
    batches = [make_batch(group[i], recipe, tokenizer, step, i).to(accelerator.device) for i in mine]
    # DDP averages gradients over the processes, hence the division.
    totals = accelerator.reduce(sum(batch.totals for batch in batches), "sum") / processes
    sums: dict[str, Tensor] = {}
    for batch in batches:
        last = batch is batches[-1]
        with contextlib.nullcontext() if last else accelerator.no_sync(objective):
            losses = objective(batch, totals)
            accelerator.backward(losses["loss"])
        for name, loss in losses.items():
            sums[name] = sums.get(name, 0) + loss.detach()
    return {name: accelerator.reduce(loss, "mean") for name, loss in sums.items()}


class Progress:
    """How far a run is: what its saved state tells beside weights and optimizers."""

    def __init__(self):
        self.step = self.tokens = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step, "tokens": self.tokens}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step, self.tokens = state["step"], state["tokens"]


class States:
    """The saved states of a run, folders `state-STEP`; a cut while one is written loses only that one."""

    def __init__(self, accelerator: Accelerator, output: Path):
        self.accelerator, self.output = accelerator, output
        output.mkdir(parents=True, exist_ok=True)

    def _all(self) -> list[Path]:
        return sorted(self.output.glob("state-*"), key=lambda path: int(path.name.removeprefix("state-")))

    def load(self) -> None:
        if states := self._all():
            self.accelerator.load_state(str(states[-1]))

    def save(self, step: int) -> None:
        unfinished = self.output / UNFINISHED
        self.accelerator.save_state(str(unfinished))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            older = [path for path in self._all() if path.name != f"state-{step}"]
            if not (self.output / f"state-{step}").exists():
                os.replace(unfinished, self.output / f"state-{step}")
            for path in [*older, unfinished]:
                shutil.rmtree(path, ignore_errors=True)

    def clear(self) -> None:
        for path in [*self._all(), *self.output.glob(UNFINISHED)]:
            shutil.rmtree(path)


class Log:
    """The metrics file of a run, cut to the step it resumes from."""

    def __init__(self, path: Path, step: int, writes: bool):
        self.path, self.writes = path, writes
        if writes:
            kept = path.read_text().splitlines()[:step] if path.exists() else []
            path.write_text("".join(f"{line}\n" for line in kept))

    def add(self, metrics: Metrics) -> None:
        if self.writes:
            with self.path.open("a") as file:
                file.write(metrics.line() + "\n")


def _unwrapped(weights: dict[str, Tensor] | None) -> dict[str, Tensor] | None:
    """The weights of the model inside the objective."""
    return weights and {name.removeprefix("model."): weight for name, weight in weights.items()}


def add_adapters(model: PreTrainedModel, rank: int, mask_id: int | None) -> PeftModel:
    """LoRA in place on every linear layer; the mask token's embedding is trained whole.

    Merged into the weights when the run is saved: a checkpoint has no more parameters than its base.
    """
    from peft import LoraConfig, get_peft_model  # slow to import

    embedding = next(
        name for name, module in model.named_modules() if module is model.get_input_embeddings()
    )
    trained = None if mask_id is None else {embedding.rpartition(".")[2]: [mask_id]}
    config = LoraConfig(
        r=rank, lora_alpha=2 * rank, target_modules="all-linear", trainable_token_indices=trained
    )
    return get_peft_model(model, config)


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


def make_optimizers(model: PreTrainedModel, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """AdamW for everything, or Muon for the hidden matrices behind AdamW for embeddings and norms."""
    trained = [p for p in model.parameters() if p.requires_grad]
    matrices = []
    if recipe.muon_learning_rate is not None:
        embedding = model.get_input_embeddings().weight
        output = model.get_output_embeddings().weight
        matrices = [p for p in trained if p.ndim == 2 and p is not embedding and p is not output]
    chosen = {id(p) for p in matrices}
    adamw = torch.optim.AdamW(
        [p for p in trained if id(p) not in chosen],
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
