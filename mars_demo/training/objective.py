"""Training objectives: the two streams of a batch, their targets and their losses (section 3.2)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from mars_demo.decoding.engine import hidden_states
from mars_demo.layout import Layout
from mars_demo.training import head
from mars_demo.training.attention import FLEX
from mars_demo.training.blocks import block_mask
from mars_demo.training.corpus import Conversation
from mars_demo.training.two_streams import CLEAN, Streams, block_starts, to_device, two_streams

IGNORE = -100
MAX_SLOTS = 33  # a window of the largest block size, 32


@dataclass(frozen=True)
class Batch:
    """The two streams of a batch and, for each of their [rows, n] positions, a target token or `IGNORE`.

    `slots` is the slot of a window that a position predicts: 1 for the clean stream, up to block size + 1
    for the noisy one. `weights` are the loss weights within a stream. With a reference, the [rows] flags
    `sft` and `taught` say whether the clean stream of a sequence learns its tokens, and whether it learns
    the reference's distributions; without one, every sequence learns its tokens.
    """

    streams: Streams
    targets: Tensor
    slots: Tensor
    weights: Tensor
    sft: Tensor
    taught: Tensor

    @property
    def clean_length(self) -> int:
        """The length of the clean stream, which comes first."""
        return self.streams.clean_length

    @property
    def layout(self) -> Layout:
        return self.streams.layout()

    @property
    def totals(self) -> Tensor:
        """The [2] summed weights of the clean and noisy targets, by which losses are normalized."""
        weights = self.weights * (self.targets != IGNORE)
        return torch.stack([weights[:, : self.clean_length].sum(), weights[:, self.clean_length :].sum()])


@dataclass
class _Noisy:
    """The noisy stream of one conversation, as lists over its positions."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


def pad(rows: Sequence[Sequence[float]], value: float) -> Tensor:
    """Return lists of numbers as one tensor, padded with `value`; integers if `value` is one."""
    length = max(map(len, rows))
    dtype = torch.long if isinstance(value, int) else torch.float32
    return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows], dtype=dtype)


def ar_batch(sequences: Sequence[Conversation], pad_id: int) -> Batch:
    """Return a batch with the clean stream alone, for supervised fine-tuning on the answers."""
    return _batch(sequences, [_Noisy() for _ in sequences], pad_id)


def mars_batch(
    sequences: Sequence[Conversation],
    block_size: int,
    mask_id: int,
    pad_id: int,
    rng: random.Random,
    fixed_blocks: bool = False,
    whole_copy: bool = False,
    slot_decay: float = 1.0,
) -> Batch:
    """Return a batch with both streams, with a mask at every answer position but the last.

    The mask at position p predicts the token at p + 1, like every other position. Prompt positions have
    no noisy copy, because no trained position would see it, and each answer has a random block phase. As in
    the paper, `fixed_blocks` starts blocks at multiples of the block size; with `whole_copy`, the paper's
    2L positions instead of L + R, the prompt is copied too and blocks count from the start of the text.

    The target of slot s ≥ 2 has the loss weight `slot_decay` to the power of s - 2: slots are accepted from
    the left, so a later one matters only if the earlier ones were right.
    """
    noisy = []
    for sequence in sequences:
        ids, response = sequence.ids, sequence.response
        copied = [True] * len(ids) if whole_copy else response
        phases = [0 if fixed_blocks else rng.randrange(block_size) for _ in range(_runs(copied))]
        block = block_starts(copied, block_size, phases)
        kept = [p for p in range(len(ids) - 1) if whole_copy or (response[p] and response[p + 1])]
        slots = [p - block[p] + 2 for p in kept]
        noisy.append(
            _Noisy(
                ids=[mask_id if response[p] else ids[p] for p in kept],
                positions=kept,
                starts=[block[p] for p in kept],
                targets=[ids[p + 1] if response[p] and response[p + 1] else IGNORE for p in kept],
                slots=slots,
                weights=[slot_decay ** (slot - 2) for slot in slots],
            )
        )
    return _batch(sequences, noisy, pad_id)


def _runs(flags: Sequence[bool]) -> int:
    """Return the number of runs of True."""
    return sum(inside and not before for before, inside in zip([False, *flags], flags))


def diffusion_batch(
    sequences: Sequence[Conversation], block_size: int, mask_id: int, pad_id: int, rng: random.Random
) -> Batch:
    """Return a batch for block diffusion, the paper's baseline (BD3-LM), with bidirectional blocks.

    Blocks begin with the answer. In each block m tokens, uniformly from 1 to all, become masks and weigh
    1/m of the block each, which makes the loss the bound on the likelihood. A mask predicts the token at
    its own position; the clean stream, which later blocks see, has no loss.
    """
    noisy, clean_starts = [], []
    for sequence in sequences:
        ids, response = sequence.ids, sequence.response
        block = block_starts(response, block_size, [0] * _runs(response))
        copy = _Noisy()
        for start in sorted(set(block) - {CLEAN}):
            members = [p for p, b in enumerate(block) if b == start]
            masked = set(rng.sample(members, rng.randint(1, len(members))))
            copy.ids += [mask_id if p in masked else ids[p] for p in members]
            copy.positions += members
            copy.starts += [start] * len(members)
            copy.targets += [ids[p] if p in masked else IGNORE for p in members]
            copy.slots += range(1, len(members) + 1)
            copy.weights += [len(members) / len(masked)] * len(members)
        noisy.append(copy)
        clean_starts.append(block)
    return _batch(sequences, noisy, pad_id, clean_starts)


def _batch(
    sequences: Sequence[Conversation],
    noisy: Sequence[_Noisy],
    pad_id: int,
    clean_starts: Sequence[Sequence[int]] | None = None,
) -> Batch:
    clean = pad([sequence.ids for sequence in sequences], pad_id)
    lengths = torch.tensor([len(sequence.ids) for sequence in sequences])
    if clean_starts is None:
        following = [
            [*(t if inside else IGNORE for t, inside in zip(s.ids[1:], s.response[1:])), IGNORE]
            for s in sequences
        ]
    else:
        following = [[IGNORE] * len(s.ids) for s in sequences]

    def column(name: str, value: float) -> Tensor:
        return pad([getattr(copy, name) for copy in noisy], value)

    return Batch(
        streams=two_streams(
            clean,
            lengths,
            column("ids", pad_id),
            column("positions", 0),
            column("starts", CLEAN),
            None if clean_starts is None else pad(clean_starts, CLEAN),
        ),
        targets=torch.cat([pad(following, IGNORE), column("targets", IGNORE)], dim=1),
        slots=torch.cat([torch.ones_like(clean), column("slots", 1)], dim=1),
        weights=torch.cat([torch.ones(clean.shape), column("weights", 0.0)], dim=1),
        sft=torch.tensor([sequence.own is not True for sequence in sequences]),
        taught=torch.tensor([sequence.own is not False for sequence in sequences]),
    )


@dataclass(frozen=True)
class Reference:
    """A frozen reference model, and the weight of the clean stream's KL divergence from it."""

    model: PreTrainedModel
    weight: float


class Objective(nn.Module):
    """A causal language model and its loss.

    The loss is noisy cross-entropy + λ · clean cross-entropy + κ · KL(clean ‖ noisy) + μ · KL(reference ‖
    clean), where λ is `sft_weight`, κ `kl_weight` and μ the weight of the `reference`. The first KL term
    distils the clean stream's distribution for a token into the mask that predicts it, the second one keeps
    the clean stream close to another model. Each term is a mean over the targets of its stream; a stream
    without targets has no term. With a reference, conversations that it wrote itself (`Conversation.own`)
    have no clean cross-entropy, and others have no second KL term.
    """

    def __init__(
        self,
        model: nn.Module,
        sft_weight: float = 1.0,
        kl_weight: float = 0.0,
        mask_vector: nn.Module | None = None,
        reference: Reference | None = None,
    ):
        super().__init__()
        self.model = model
        self.mask_vector = mask_vector  # it acts through the embedding; registered here as a parameter
        self.sft_weight = sft_weight
        self.kl_weight = kl_weight
        self.reference = reference  # not a submodule, so neither trained nor saved
        # accelerate reads here which modules FSDP shards, one at a time.
        self._no_split_modules = sorted({type(layer).__name__ for layer in _layers(model)})
        self._of_part = head.of_part

    def compile(self) -> None:
        """Compile the head's loss and each layer of the models, lazily at their first use."""
        self._of_part = torch.compile(head.of_part, dynamic=True)
        for model in (self.model, self.reference and self.reference.model):
            for layer in _layers(model) if model else ():
                layer.compile(dynamic=True)

    def forward(self, batch: Batch, totals: Tensor | None = None) -> dict[str, Tensor]:
        """Return the losses in nats per token.

        `loss` is to be minimized; `clean`, `noisy`, `kl` and `reference`, as far as they are computed, have
        no gradient. `slots` is [MAX_SLOTS, 3]: the targets, summed nats and correct predictions per slot.

        batch: on the host, where all indices are computed, so that it does not wait for a GPU.
        totals: [2] divisors of the terms; `batch.totals` if None, or the sum over the batches of a step.
        """
        is_target = batch.targets != IGNORE  # logits only where a loss needs them
        hidden = self._hidden(self.model, batch.streams, is_target)
        send = partial(to_device, device=hidden.device)
        row, column = is_target.nonzero(as_tuple=True)
        is_clean = column < batch.clean_length
        ids, weights, slots = (t[is_target] for t in (batch.targets, batch.weights, batch.slots))
        zeros = partial(weights.new_zeros, device=hidden.device)
        losses = {"loss": zeros(()), "slots": zeros((MAX_SLOTS, 3))}
        output = self.model.get_output_embeddings()
        clean_total, noisy_total = send(batch.totals if totals is None else totals)
        learns = self.sft_weight * (batch.sft[row] if self.reference else torch.ones_like(is_clean))
        taught = is_clean & batch.taught[row] & bool(self.reference)
        if self.reference:
            losses["reference"] = zeros(())
        for name, chosen, factors, total, teach in (
            ("clean", is_clean & ~taught, learns, clean_total, None),
            ("clean", taught, learns, clean_total, self._of_reference),
            ("noisy", ~is_clean, torch.ones_like(weights), noisy_total, self._of_clean),
        ):
            if not chosen.any():
                continue
            states = hidden[send(chosen.nonzero()[:, 0])]
            shares = send(weights[chosen]) / total
            teacher = teach and teach(batch, hidden, total)
            weighted = send(factors[chosen]) * shares
            part = head.in_parts(output, states, send(ids[chosen]), weighted, teacher, self._of_part)
            losses["loss"] = losses["loss"] + part.loss
            losses[name] = losses.get(name, 0) + (shares * part.nats).sum()
            if teacher:
                losses["reference" if name == "clean" else "kl"] = part.kl / total
            losses["slots"] += _per_slot(send(slots[chosen]), part.nats, part.right)
        return losses

    def _of_clean(self, batch: Batch, hidden: Tensor, total: Tensor) -> head.Teacher | None:
        """Return the teacher of the noisy targets, given the hidden states of all targets."""
        if not self.kl_weight:
            return None
        of_clean = hidden[to_device(_teachers(batch, batch.targets != IGNORE), hidden.device)].detach()
        return head.Teacher(self.model.get_output_embeddings(), of_clean, self.kl_weight / total)

    def _of_reference(self, batch: Batch, _, total: Tensor) -> head.Teacher:
        """Return the teacher of the clean targets in the `taught` sequences."""
        model, streams = self.reference.model, batch.streams.clean.rows(batch.taught)
        is_target = batch.targets[batch.taught, : batch.clean_length] != IGNORE
        with torch.no_grad():
            hidden = self._hidden(model, streams, is_target)
        return head.Teacher(model.get_output_embeddings(), hidden, self.reference.weight / total)

    def _hidden(self, model: nn.Module, streams: Streams, is_target: Tensor) -> Tensor:
        """Return the [k, width] final hidden states of the k target positions."""
        if model.config._attn_implementation == FLEX:
            layout, spans = streams.packed()
            mask, is_target = block_mask(to_device(spans, model.device)), is_target[streams.real]
            hidden = hidden_states(model, layout, mask=mask)
        else:
            hidden = hidden_states(model, streams.to(model.device).layout())
        return hidden.flatten(0, 1)[to_device(is_target.flatten().nonzero()[:, 0], hidden.device)]


def _layers(model: nn.Module) -> list[nn.Module]:
    """Return the layers of a model; transformers' layers have a common base."""
    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def _teachers(batch: Batch, is_target: Tensor) -> Tensor:
    """Return, for each noisy target, the index of the clean stream's target for the same token."""
    order = (is_target.flatten().cumsum(0) - 1).view_as(is_target)
    rows, columns = is_target.nonzero(as_tuple=True)
    noisy = columns >= batch.clean_length
    return order[rows[noisy], batch.streams.positions[rows[noisy], columns[noisy]]]


def _per_slot(slots: Tensor, nats: Tensor, right: Tensor) -> Tensor:
    """Return [MAX_SLOTS, 3] numbers of targets, summed nats and correct predictions."""
    table = nats.new_zeros(MAX_SLOTS, 3)
    table.index_add_(0, slots - 1, torch.stack([torch.ones_like(nats), nats, right.to(nats.dtype)], dim=1))
    return table
