"""`MarsTrainer`: transformers' Trainer with the objective, the data and the optimizer of MARS."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from torch import Tensor, nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.tensor import DTensor
from torch.utils.data import DataLoader
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback, Trainer, TrainerCallback

from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.mask_token import ensure_mask
from mars_demo.training import corpus, failures, states
from mars_demo.training.attention import FLEX, attending, fastest
from mars_demo.training.batch import TrainingBatch
from mars_demo.training.batching import Batches, OneLength, Packed
from mars_demo.training.clock import Clock
from mars_demo.training.config import MarsConfig
from mars_demo.training.metrics import FILE
from mars_demo.training.objective import Objective, Reference
from mars_demo.training.optimizers import make_optimizer
from mars_demo.training.steps import Steps

if TYPE_CHECKING:
    from datasets import Dataset, IterableDataset
    from peft import PeftModel

    Data = str | Dataset | IterableDataset

RESOLUTION = 1_000_000  # steps of a schedule that follows the clock


class MarsTrainer(Trainer):
    """A `transformers.Trainer` of a causal language model with the objective of a `MarsConfig`.

    Conversations come from data sets with a column `messages`, or from what `config.data` names. With a
    PEFT model only its adapters train; the saved checkpoint has them merged.

    pace: read at every step; multiplies the scheduled learning rates.

    Raises:
        ValueError: if the data cannot be used, there is no room for a mask token, or the reference does not
            fit the model.
    """

    loss_is_scaled_for_ga = True  # by the weights of all targets of a step
    args: MarsConfig
    _divisors: Tensor | None = None  # of the terms of an evaluation

    def __init__(
        self,
        model: PreTrainedModel | PeftModel,
        args: MarsConfig,
        train_dataset: Data | None = None,
        eval_dataset: Data | None = None,
        processing_class: PreTrainedTokenizerBase | None = None,
        callbacks: list[TrainerCallback] | None = None,
        pace: Callable[[], float] = lambda: 1.0,
    ):
        if args.objective != "ar":
            ensure_mask(plain(model), processing_class)
        self.pools = corpus.source(args.data if train_dataset is None else train_dataset, args.seed)
        super().__init__(
            model,
            args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=processing_class,
            callbacks=callbacks,
        )
        self.remove_callback(PrinterCallback)
        self.clock = Clock(args.minutes) if args.minutes else None
        self.steps = Steps(self, pace, self.clock)
        self.add_callback(self.steps)
        if self.is_fsdp_enabled and (args.muon_learning_rate or plain(model) is not model):
            raise ValueError("FSDP supports only AdamW, without Muon and LoRA.")
        self.attention = args.attention or fastest(args.device)
        self.grouping = self._grouping()
        self.objective = Objective(args.sft_weight, self._reference())
        if args.compile:
            failures.check_compiler()
            self.objective.compile(plain(model), dynamic=self.grouping.length is None)

    # --------------------------------------------------------------------------------------- the run

    def run(self, resume: bool = False, overwrite: bool = False) -> bool:
        """Train, write the checkpoint to the output folder and remove the states; return whether it ended.

        A run stopped before its end keeps its last state. With `resume` a run continues from there, and a
        finished one has nothing to do; with `overwrite` the state is deleted.

        Raises:
            ValueError: if the folder has a state and neither is set, or another training writes to it; if a
                loss is not finite, or memory or the disk runs out. The last state is kept.
        """
        output, is_main = Path(self.args.output_dir), self.is_world_process_zero()
        with states.locked(output) if is_main else nullcontext():
            state = states.last(output)
            if state and not (resume or overwrite):
                raise ValueError(
                    f"{output} has the saved state {state.name} of an earlier run. Continue it with "
                    "--resume, or delete it with --overwrite."
                )
            written = (output / FILE, output / "config.json")
            if resume and state is None and all(file.exists() and file.stat().st_size for file in written):
                return True  # it has ended before
            self.accelerator.wait_for_everyone()
            state = state if resume else None
            if is_main:
                states.clear(output, kept=state)
            self.train(resume_from_checkpoint=state and str(state))
            if not self.steps.is_over:
                return False
            self.save_model()
            if is_main:
                states.clear(output)
            return True

    def train(self, *args, **settings):
        """Train as `Trainer.train`.

        Raises:
            ValueError: as `run`.
        """
        try:
            with self._one_sentence(), self.steps:
                return super().train(*args, **settings)
        finally:
            self.is_in_train = False
            self.accelerator.unwrap_model(self.model, keep_fp32_wrapper=False)  # ends autocast

    def _one_sentence(self) -> AbstractContextManager[None]:
        size = self.args.packed or self.args.batch_tokens
        return failures.one_sentence(lambda: self.state.global_step + self.is_in_train, size)

    def stop(self) -> None:
        """End the training after its current step, and save its state if it saves any."""
        self.steps.stopped = True

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write a state, or without another folder a checkpoint that plain transformers loads.

        Raises:
            ValueError: if there is too little memory or disk space for the checkpoint.
        """
        if output_dir not in (None, self.args.output_dir):
            super().save_model(output_dir, _internal_call)
            return
        with self._one_sentence():
            self._write_checkpoint()
        if self.args.push_to_hub and not _internal_call:
            self.push_to_hub(commit_message="Model save")

    def _write_checkpoint(self) -> None:
        model, weights = self.model, None
        self.accelerator.wait_for_everyone()
        if self.is_fsdp_enabled:
            weights = self.accelerator.get_state_dict(model)
        if self.is_world_process_zero():
            if hasattr(model, "merge_and_unload"):
                self.model = model = model.merge_and_unload()
            args = self.args
            block_size = None if args.objective == "ar" else args.block_size
            output = Path(args.output_dir)
            save_checkpoint(model, self.processing_class, output, block_size, args.objective, weights)

    # -------------------------------------------------------------------------------------- the step

    def compute_loss(
        self,
        model: nn.Module,
        inputs: TrainingBatch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, dict]:
        """Return the loss of a batch, in nats per token.

        num_items_in_batch: [2] divisors of the clean and noisy terms; those of the batch alone if None.
        """
        # The objective calls the inner model in parts, but DDP and FSDP act on calls of the wrapped one.
        # So it runs as one forward of that one, and gradients are reduced and weights gathered once.
        inner = self.accelerator.unwrap_model(model)
        compute = partial(self.objective, plain(inner), inputs, num_items_in_batch)
        with self.accelerator.autocast():
            losses = _as_forward(model, inner, compute)
        if model.training:
            self.steps.add(losses)
        return (losses["loss"], losses) if return_outputs else losses["loss"]

    def training_step(self, model: nn.Module, inputs: TrainingBatch, *args, **settings) -> Tensor:
        with attending(plain(self.accelerator.unwrap_model(model)), self.attention):
            return super().training_step(model, inputs, *args, **settings)

    def prediction_step(self, model: nn.Module, inputs: TrainingBatch, *args, **settings) -> tuple:
        """Return the loss of a batch; there are no predictions."""
        inner = plain(self.accelerator.unwrap_model(model))
        with torch.no_grad(), attending(inner, self.attention):
            return self.compute_loss(model, inputs, num_items_in_batch=self._divisors).detach(), None, None

    def evaluation_loop(self, dataloader: DataLoader, *args, **settings):
        """Evaluate as `Trainer.evaluation_loop`, which averages the losses of batches of any size.

        Divided by the mean totals of the batches, their average is the mean over all targets of the data.
        """
        totals = torch.stack([batch.totals for batch in dataloader])
        self._divisors = totals.mean(0).to(self.args.device)
        return super().evaluation_loop(dataloader, *args, **settings)

    def get_batch_samples(
        self, epoch_iterator: Iterator[TrainingBatch], num_batches: int, device: torch.device
    ) -> tuple[list[TrainingBatch], Tensor]:
        """Return the batches of a step, and the divisors of its terms.

        Losses are means over all targets of the step on all processes, as for one large batch. DDP averages
        gradients over the processes, hence the division.
        """
        batches = [next(epoch_iterator) for _ in range(num_batches)]
        counts = torch.stack([torch.tensor([*one.totals, one.tokens]) for one in batches]).sum(0)
        counts = self.accelerator.reduce(counts.to(device, non_blocking=True), "sum")
        self.steps.begin(counts[2])
        return batches, counts[:2] / self.accelerator.num_processes

    def floating_point_ops(self, inputs: TrainingBatch) -> int:
        """Return the FLOPs of a step's matrix products, 6 per weight and position."""
        return 6 * sum(p.numel() for p in self.model.parameters()) * int(inputs.positions.real.sum())

    def _get_grad_norm(self, model: nn.Module, grad_norm: Tensor | None = None) -> Tensor:
        norm = super()._get_grad_norm(model, grad_norm)
        self.steps.grad_norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
        return norm

    # --------------------------------------------------------------------- data, optimizer, processes

    def get_train_dataloader(self) -> DataLoader:
        """Return the data loader of this process's batches, which its workers make."""
        return self._loader(self.pools, (self.args.process_index, self.args.world_size))

    def get_eval_dataloader(self, eval_dataset: Data | None = None) -> DataLoader:
        """Return the data loader of one epoch of the evaluation data.

        Each process evaluates all of it: shares could differ in their number of batches, and the processes
        would wait for each other.
        """
        data = self.eval_dataset if eval_dataset is None else eval_dataset
        return self._loader(corpus.source(data, None), (0, 1))

    def _loader(self, pools: corpus.Pools, share: tuple[int, int]) -> DataLoader:
        return DataLoader(
            Batches(pools, self.processing_class, self.args, self.grouping, share),
            batch_size=None,
            num_workers=self.args.dataloader_num_workers,
            prefetch_factor=self.args.dataloader_prefetch_factor,
        )

    def _grouping(self) -> OneLength | Packed:
        args, is_flex = self.args, self.attention == FLEX
        if not (args.packed or is_flex):
            return OneLength(args.batch_tokens)
        positions = args.packed or 2 * args.batch_tokens
        length = positions if is_flex else min(positions, 2 * args.max_length)
        return Packed(positions // length, length, args.objective, bool(args.reference))

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """Return AdamW, or AdamW with Muon for the hidden matrices."""
        if self.optimizer is None:
            args, trained = self.args, plain(self.model if model is None else model)
            rates = (args.learning_rate, args.muon_learning_rate, args.weight_decay)
            self.optimizer = make_optimizer(trained, *rates, (args.adam_beta1, args.adam_beta2))
        return self.optimizer

    def create_scheduler(self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None):
        """Return the schedule of the config over the steps, or over the time of the clock."""
        if not self.clock:
            return super().create_scheduler(num_training_steps, optimizer)
        scheduler = super().create_scheduler(RESOLUTION, optimizer)
        scheduler.lr_lambdas = [
            lambda _, rate=rate: rate(RESOLUTION * self.clock.share) for rate in scheduler.lr_lambdas
        ]
        return scheduler

    def create_accelerator_and_postprocess(self) -> None:
        """Create the accelerator, with FSDP as `accelerate launch` configures it.

        accelerate's own settings would round inputs and outputs of the objective to bfloat16, which are its
        counts and losses, and sum gradients in bfloat16. Its loading for little memory would separate tied
        weights.

        Raises:
            ValueError: if weights are to be sharded by FSDP version 1.
        """
        shards = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
        if shards:
            if os.environ.get("FSDP_VERSION") != "2":
                raise ValueError("Training needs version 2 of FSDP: set fsdp_version to 2.")
            policy = MixedPrecisionPolicy(
                param_dtype=torch.bfloat16 if self.args.bf16 else None,
                reduce_dtype=torch.float32,
                cast_forward_inputs=False,
            )
            settings = {"mixed_precision_policy": policy, "cpu_ram_efficient_loading": False}
            self.args.fsdp_plugin_args = settings
        super().create_accelerator_and_postprocess()
        state = self.accelerator.state
        if shards and state.distributed_type == DistributedType.MULTI_CPU:
            # torch can shard weights over CPU processes, but accelerate never requests it.
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**settings)
            state.distributed_type = PartialState().distributed_type = DistributedType.FSDP
            self.is_fsdp_enabled = True
        if shards:
            self.accelerator.prepare = partial(_with_ends_in_root, self.accelerator.prepare)

    def _reference(self) -> Reference | None:
        args = self.args
        if not args.reference:
            return None
        loaded = load_checkpoint(args.reference, str(args.device), torch.float32)
        model, vocabulary = loaded.model, self.processing_class.get_vocab()
        same = all(vocabulary.get(token, id) == id for token, id in loaded.tokenizer.get_vocab().items())
        if model.config.vocab_size != plain(self.model).config.vocab_size or not same:
            raise ValueError(
                f"The reference {args.reference} and the trained model have different vocabularies. "
                "Use the model's own base."
            )
        model.requires_grad_(False).set_attn_implementation(self.attention)
        return Reference(model, args.reference_weight)


def plain(model: nn.Module) -> PreTrainedModel:
    """Return the model in which PEFT has put its adapters, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _with_ends_in_root(prepare: Callable, *objects: object) -> object:
    """Prepare a model for FSDP with its embedding and head in the unit of the whole model.

    accelerate would give them a unit of their own, which is sharded again between the parts of the loss.
    """
    models = [one for one in objects if isinstance(one, PreTrainedModel)]
    names = ("get_input_embeddings", "get_output_embeddings")
    for model in models:
        vars(model).update(dict.fromkeys(names, lambda: None))
    try:
        return prepare(*objects)
    finally:
        for model in models:
            for name in names:
                del vars(model)[name]


def _as_forward(wrapped: nn.Module, inner: nn.Module, compute: Callable[[], dict]) -> dict:
    """Compute as the forward of a model that DDP or FSDP may wrap, whose hooks only see calls of it."""
    before = vars(inner).get("forward")  # accelerate's, with autocast
    inner.forward = lambda *_: compute()
    try:
        return wrapped()
    finally:
        if before is None:
            del inner.forward
        else:
            inner.forward = before
