"""What a model is trained on: the two streams of a batch, their targets and their losses (section 3.2)."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Self

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers.modeling_layers import GradientCheckpointingLayer

from mars_demo.decoding.engine import hidden_states
from mars_demo.decoding.layout import Layout
from mars_demo.training import head
from mars_demo.training.attention import FLEX
from mars_demo.training.blocks import block_mask
from mars_demo.training.corpus import Conversation
from mars_demo.training.two_streams import CLEAN, Streams, block_starts, two_streams

IGNORE = -100
MAX_SLOTS = 33  # a window of the largest block size, 32


@dataclass(frozen=True)
class Batch:
    """Two streams and, for each of their [rows, n] positions, the token it must predict or `IGNORE`.

    `slots` says which slot of a window a position predicts: 1 for the clean stream, up to block size + 1
    for the noisy one. `weights` are the shares of the positions in their stream's loss. `sft` and `taught`
    are [rows]: whether the clean stream of a row learns its tokens, and whether it learns a reference's
    distributions, where there is a reference; without one every row learns its tokens.
    """

    streams: Streams
    targets: Tensor
    slots: Tensor
    weights: Tensor
    sft: Tensor
    taught: Tensor

    @property
    def clean_length(self) -> int:
        """Columns of the clean stream, the first ones."""
        return self.streams.clean_length

    @property
    def layout(self) -> Layout:
        return self.streams.layout()

    @property
    def totals(self) -> Tensor:
        """[2] the summed weights of the clean and of the noisy targets: what the losses are means over."""
        weights = self.weights * (self.targets != IGNORE)
        return torch.stack([weights[:, : self.clean_length].sum(), weights[:, self.clean_length :].sum()])

    def to(self, device: torch.device) -> Self:
        return Batch(*(getattr(self, one.name).to(device) for one in fields(self)))


@dataclass
class _Noisy:
    """The noisy stream of one conversation, position by position."""

    ids: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)


def pad(rows: Sequence[Sequence[float]], value: float) -> Tensor:
    """Return rows of numbers as one tensor; it is of integers if `value` is one."""
    length = max(map(len, rows))
    dtype = torch.long if isinstance(value, int) else torch.float32
    return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows], dtype=dtype)


def ar_batch(sequences: Sequence[Conversation], pad_id: int) -> Batch:
    """Make a batch of the clean stream alone: ordinary supervised fine-tuning on the answers."""
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
    """Make a batch of both streams: a mask at every answer position whose successor is in the answer too.

    The mask at position p predicts the token at p + 1, like every other position. Prompt positions have
    no noisy copy, because nothing that is trained would look at it, and the block phase is drawn for each
    answer. As in the paper, `fixed_blocks` begins blocks at multiples of the block size, counted from the
    start of the text with `whole_copy`, which copies the prompt too: 2L positions instead of L + R.

    The target of slot s, from 2 on, counts `slot_decay` to the power of s - 2: slots are accepted from the
    left, so a later one matters only if those before it were right.
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
    """Return how many stretches of True there are."""
    return sum(inside and not before for before, inside in zip([False, *flags], flags))


def diffusion_batch(
    sequences: Sequence[Conversation], block_size: int, mask_id: int, pad_id: int, rng: random.Random
) -> Batch:
    """Block diffusion, the paper's baseline (BD3-LM): fill the masks of a block, seen from both sides.

    Blocks begin with the answer. Of each, m tokens become masks, m drawn from 1 to all of them, and count
    1/m of the block each, which makes the loss the bound on the likelihood. A mask predicts the token at
    its own position; the clean stream, which the next blocks read, has no loss.
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
    """A model that is not trained, and what the clean stream's divergence from it counts."""

    model: PreTrainedModel
    weight: float


class Objective(nn.Module):
    """A causal LM and its loss: noisy cross-entropy + λ · clean cross-entropy + κ · KL(clean ‖ noisy)
    + μ · KL(reference ‖ clean).

    λ is `sft_weight`, κ `kl_weight`, μ the weight of the `reference`. The first KL term teaches a mask the
    whole distribution that the clean stream of the same forward has for the same token, the second one
    keeps the clean stream at the distributions of another model. Each term is a mean over the targets of
    its stream; a stream without targets has no term. With a reference, conversations that it wrote itself
    (`Conversation.own`) have no clean cross-entropy, and those of others have no second KL term.
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
        self.mask_vector = mask_vector  # it acts in the embedding; here it joins the weights
        self.sft_weight = sft_weight
        self.kl_weight = kl_weight
        self.reference = reference  # no module of this one: neither trained nor saved
        self._of_part = head.of_part

    def compile(self) -> None:
        """Compile the loss of the head and each layer of the models, when they are first used."""
        self._of_part = torch.compile(head.of_part, dynamic=True)
        for model in (self.model, self.reference and self.reference.model):
            for module in model.modules() if model else ():
                if isinstance(module, GradientCheckpointingLayer):  # as every layer of transformers is
                    module.compile(dynamic=True)

    def forward(self, batch: Batch, totals: Tensor | None = None) -> dict[str, Tensor]:
        """Return the losses in nats per token: `loss`, to be minimized, and those of `clean`, `noisy`, `kl`
        and `reference` that there are, which have no gradient. `slots` is [MAX_SLOTS, 3]: targets, summed
        nats and right guesses per slot.

        totals: [2] what the terms are divided by, `batch.totals` if None; that of all batches where
            several make one step.
        """
        wanted = batch.targets != IGNORE  # logits only where a loss needs them
        hidden = self._hidden(self.model, batch.streams, wanted)
        columns = torch.arange(wanted.shape[1], device=wanted.device).expand_as(wanted)
        is_clean = (columns < batch.clean_length)[wanted]
        ids, weights, slots = (t[wanted] for t in (batch.targets, batch.weights, batch.slots))
        losses = {"loss": weights.new_zeros(()), "slots": weights.new_zeros(MAX_SLOTS, 3)}
        output = self.model.get_output_embeddings()
        clean_total, noisy_total = batch.totals if totals is None else totals
        row = wanted.nonzero(as_tuple=True)[0]
        learns = self.sft_weight * (batch.sft[row] if self.reference else torch.ones_like(is_clean))
        taught = is_clean & batch.taught[row] & bool(self.reference)
        if self.reference:
            losses["reference"] = weights.new_zeros(())
        for name, chosen, factors, total, teach in (
            ("clean", is_clean & ~taught, learns, clean_total, None),
            ("clean", taught, learns, clean_total, self._of_reference),
            ("noisy", ~is_clean, torch.ones_like(weights), noisy_total, self._of_clean),
        ):
            if not chosen.any():
                continue
            shares = weights[chosen] / total
            teacher = teach and teach(batch, hidden, total)
            weighted = factors[chosen] * shares
            found = head.in_parts(output, hidden[chosen], ids[chosen], weighted, teacher, self._of_part)
            losses["loss"] = losses["loss"] + found.loss
            losses[name] = losses.get(name, 0) + (shares * found.nats).sum()
            if teacher:
                losses["reference" if name == "clean" else "kl"] = found.kl / total
            losses["slots"] += _per_slot(slots[chosen], found.nats, found.right)
        return losses

    def _of_clean(self, batch: Batch, hidden: Tensor, total: Tensor) -> head.Teacher | None:
        """Return what teaches the noisy targets, of the hidden states of all targets."""
        if not self.kl_weight:
            return None
        of_clean = hidden[_teachers(batch, batch.targets != IGNORE)].detach()
        return head.Teacher(self.model.get_output_embeddings(), of_clean, self.kl_weight / total)

    def _of_reference(self, batch: Batch, _, total: Tensor) -> head.Teacher:
        """Return what teaches the clean targets of the rows that the reference teaches."""
        model, streams = self.reference.model, batch.streams.clean.rows(batch.taught)
        wanted = batch.targets[batch.taught, : batch.clean_length] != IGNORE
        with torch.no_grad():
            hidden = self._hidden(model, streams, wanted)
        return head.Teacher(model.get_output_embeddings(), hidden, self.reference.weight / total)

    def _hidden(self, model: nn.Module, streams: Streams, wanted: Tensor) -> Tensor:
        """Return [k, width] what the last layer makes of the k wanted positions of the streams."""
        if model.config._attn_implementation != FLEX:
            return hidden_states(model, streams.layout())[wanted]
        layout, spans = streams.packed()
        return hidden_states(model, layout, mask=block_mask(spans))[0][wanted[streams.real]]


def _teachers(batch: Batch, wanted: Tensor) -> Tensor:
    """Return, for each noisy target, which of the wanted logits is the clean stream's for the same
    token."""
    order = (wanted.flatten().cumsum(0) - 1).view_as(wanted)
    rows, columns = wanted.nonzero(as_tuple=True)
    noisy = columns >= batch.clean_length
    return order[rows[noisy], batch.streams.positions[rows[noisy], columns[noisy]]]


def _per_slot(slots: Tensor, nats: Tensor, right: Tensor) -> Tensor:
    """Return [MAX_SLOTS, 3]: how many targets, their summed nats and how many were guessed right."""
    table = nats.new_zeros(MAX_SLOTS, 3)
    table.index_add_(0, slots - 1, torch.stack([torch.ones_like(nats), nats, right.to(nats.dtype)], dim=1))
    return table
