"""What a model is trained on: the two streams of a batch, their targets and their losses (section 3.2)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from mars_demo.corpus import Conversation
from mars_demo.layout import CLEAN, Layout, block_starts, two_streams

IGNORE = -100


@dataclass(frozen=True)
class Batch:
    """A layout and, for each of its [rows, n] positions, the token it must predict or `IGNORE`.

    The first `clean_length` columns are the clean stream, the rest the noisy one.
    """

    layout: Layout
    targets: Tensor
    clean_length: int

    @property
    def tokens(self) -> int:
        """Positions computed, padding included."""
        return self.targets.numel()

    def to(self, device: torch.device) -> Batch:
        return Batch(self.layout.to(device), self.targets.to(device), self.clean_length)


def pad(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    length = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (length - len(row))] for row in rows], dtype=torch.long)


def ar_batch(sequences: Sequence[Conversation], pad_id: int) -> Batch:
    """The clean stream alone: ordinary supervised fine-tuning on the answers."""
    return _batch(sequences, [[]] * len(sequences), [[]] * len(sequences), pad_id, mask_id=pad_id)


def mars_batch(
    sequences: Sequence[Conversation], block_size: int, mask_id: int, pad_id: int, rng: random.Random
) -> Batch:
    """Both streams: a mask at every answer position whose successor is in the answer too.

    The mask at position p predicts the token at p + 1, like every other position. Prompt positions have
    no noisy copy: nothing that is trained would look at it. The block phase is drawn for each answer.
    """
    noisy, starts = [], []
    for sequence in sequences:
        answers = sum(
            inside and not before for before, inside in zip([False, *sequence.response], sequence.response)
        )
        phases = [rng.randrange(block_size) for _ in range(answers)]
        block = block_starts(sequence.response, block_size, phases)
        kept = [p for p in range(len(block) - 1) if sequence.response[p] and sequence.response[p + 1]]
        noisy.append(kept)
        starts.append([block[p] for p in kept])
    return _batch(sequences, noisy, starts, pad_id, mask_id)


def _batch(
    sequences: Sequence[Conversation],
    noisy: Sequence[Sequence[int]],
    starts: Sequence[Sequence[int]],
    pad_id: int,
    mask_id: int,
) -> Batch:
    clean = pad([sequence.ids for sequence in sequences], pad_id)
    lengths = torch.tensor([len(sequence.ids) for sequence in sequences])
    next_token = [
        [token if inside else IGNORE for token, inside in zip(s.ids[1:], s.response[1:])] for s in sequences
    ]
    noisy_targets = [[targets[p] for p in kept] for targets, kept in zip(next_token, noisy)]
    return Batch(
        layout=two_streams(clean, lengths, pad(noisy, 0), pad(starts, CLEAN), mask_id),
        targets=torch.cat(
            [pad([[*t, IGNORE] for t in next_token], IGNORE), pad(noisy_targets, IGNORE)], dim=1
        ),
        clean_length=clean.shape[1],
    )


class Objective(nn.Module):
    """A causal LM and its loss: cross-entropy on the noisy stream + λ · cross-entropy on the clean stream.

    λ is `sft_weight`; each term is a mean over its own targets. Without a noisy stream only the clean
    term is left: AR training.
    """

    def __init__(self, model: nn.Module, sft_weight: float = 1.0):
        super().__init__()
        self.model = model
        self.sft_weight = sft_weight

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """The losses in nats per token: `loss` (to minimize), `clean`, and `noisy` if there is one."""
        layout = batch.layout
        hidden = self.model.base_model(
            input_ids=layout.ids,
            position_ids=layout.positions,
            attention_mask=layout.visible[:, None],
            use_cache=False,
        ).last_hidden_state
        wanted = batch.targets != IGNORE  # logits only where a loss needs them
        logits = self.model.get_output_embeddings()(hidden[wanted]).float()
        nats = cross_entropy(logits, batch.targets[wanted], reduction="none")
        is_clean = (torch.arange(wanted.shape[1], device=wanted.device) < batch.clean_length).expand_as(
            wanted
        )[wanted]
        losses = {"clean": nats[is_clean].mean()}
        losses["loss"] = self.sft_weight * losses["clean"]
        if not is_clean.all():
            losses["noisy"] = nats[~is_clean].mean()
            losses["loss"] = losses["loss"] + losses["noisy"]
        return losses
