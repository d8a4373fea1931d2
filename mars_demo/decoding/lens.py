"""The logit lens: what each layer's hidden states would already say through the model's own norm and head.

The method is nostalgebraist's: "interpreting GPT: the logit lens" (2020),
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens. It is an approximation:
the head was trained to read the last layer alone, and what an earlier layer holds in another form is not
seen by it. At the last layer it is the model's own output.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from mars_demo.decoding import layout as layouts
from mars_demo.decoding.engine import KeysAndValues, hidden_states, run
from mars_demo.decoding.layout import Layout, Role
from mars_demo.models.architectures import context_of
from mars_demo.models.logits import logits_of
from mars_demo.scheduler import SCHEDULER

MOST_CELLS = 4096  # layers times slots
MOST_LOGITS = 2**25  # numbers that the head gives for one layer


@dataclass(frozen=True)
class Cell:
    """The prediction of one layer in a slot."""

    token: int  # the most probable one
    probability: float
    wanted: float  # the probability of the token that came out
    rank: int  # of that token, from 1


@dataclass(frozen=True)
class Lens:
    """All layers of a forward, slot by slot. Layer 0 is what the first layer reads, the embeddings."""

    tokens: list[int]  # that came out of the slots
    verified: int  # drafts that held; the slots after them are those of the masks that see these drafts
    layers: list[list[Cell]]

    def settled(self, slot: int) -> int | None:
        """Return the first layer from which on the token that came out is the most probable one, if any."""
        wrong = (i for i in range(len(self.layers), 0, -1) if self.layers[i - 1][slot].rank > 1)
        start = next(wrong, 0)
        return start if start < len(self.layers) else None


def look(
    model: PreTrainedModel,
    layout: Layout,
    past: Sequence[int] = (),
    tokens: Sequence[int | None] = (),
    verified: int | None = None,
) -> Lens:
    """Look inside one forward: a layout of one row after the `past` token ids, computed in turns with
    whatever else computes.

    tokens: that came out of its slots, where a record names them. The others are the most probable ones of
        the last layer.
    verified: drafts of the layout that held; None for those that the last layer itself chooses.

    Raises:
        ValueError: if the forward does not fit the model or is too large, or if the model has no final norm
            or is built in a way that cannot be read.
    """
    first = _last_real(layout)
    _require_fitting(model, layout, past, tokens, first)
    norm = _final_norm(model)
    with torch.inference_mode():
        states, last = _states(model, norm, layout, past, first)
        with SCHEDULER.turn():
            output = logits_of(model, last)
        chosen = output.argmax(-1).tolist()
        if verified is None:
            verified = _agreeing(layout, chosen, first)
        rows = [row - first for row in slot_rows(layout, verified)]
        if len(rows) * (len(states) + 1) > MOST_CELLS:
            raise ValueError(
                f"This lens would have {len(states) + 1} layers and {len(rows)} slots; it has at most "
                f"{MOST_CELLS} cells."
            )
        known = [*tokens, *[None] * len(rows)]
        wanted = [chosen[row] if token is None else token for row, token in zip(rows, known)]
        cells = []
        for state in states:
            with SCHEDULER.turn():  # one for each layer: others need not wait for all
                cells.append(_cells(logits_of(model, norm(state[rows])), wanted))
        return Lens(wanted, verified, [*cells, _cells(output[rows], wanted)])


def _states(
    model: PreTrainedModel, norm: nn.Module, layout: Layout, past: Sequence[int], first: int
) -> tuple[list[Tensor], Tensor]:
    """Return the layers' inputs from position `first` on, [n - first, width], and the head's input."""
    cache, normed = KeysAndValues(), []
    if past:
        with SCHEDULER.turn():
            hidden_states(model, layouts.causal(past), cache)
    with SCHEDULER.turn():
        hook = norm.register_forward_hook(lambda module, inputs, output: normed.append(output))
        try:
            found = run(model, layout, cache, output_hidden_states=True)
        finally:
            hook.remove()
    last = found.last_hidden_state
    if not any(torch.equal(output, last) for output in normed):
        raise ValueError(
            f"What a model of type {model.config.model_type} does between its last layer and its output "
            "head is not known here, so the lens cannot read it."
        )
    return [state[0, first:] for state in found.hidden_states[:-1]], last[0, first:]


def _final_norm(model: PreTrainedModel) -> nn.Module:
    """Return the norm that stands beside the list of a model's layers."""
    for module in model.base_model.modules():
        children = list(module.children())
        if any(isinstance(child, nn.ModuleList) for child in children):
            for child in children:
                if "norm" in type(child).__name__.lower():
                    return child
    raise ValueError(
        f"A model of type {model.config.model_type} has no norm between its last layer and its output "
        "head, which the lens needs."
    )


def slot_rows(layout: Layout, verified: int) -> list[int]:
    """Return the positions that predict slots: last real token, drafts that held, masks after them."""
    columns = list(enumerate(zip(layout.roles[0].tolist(), layout.groups[0].tolist())))
    drafts = [row for row, (role, _) in columns if role == Role.DRAFT]
    masks = [row for row, (role, group) in columns if role == Role.MASK and group == verified]
    return [_last_real(layout), *drafts[:verified], *masks]


def _last_real(layout: Layout) -> int:
    """Return where the last token stands that is neither a draft nor a mask."""
    roles = layout.roles[0].tolist()
    return max(row for row, role in enumerate(roles) if role in (Role.PROMPT, Role.NEW))


def _agreeing(layout: Layout, chosen: list[int], first: int) -> int:
    """Return how many leading drafts are what the model chooses in their places."""
    count = 0
    for row, role in enumerate(layout.roles[0].tolist()):
        if role == Role.DRAFT:
            if layout.ids[0, row] != chosen[row - 1 - first]:
                break
            count += 1
    return count


def _cells(logits: Tensor, wanted: list[int]) -> list[Cell]:
    """Return a cell for each row of [k, vocabulary] logits."""
    p = logits.softmax(-1)
    best, tokens = p.max(-1)
    own = p.gather(-1, torch.tensor(wanted, device=p.device)[:, None])
    ranks = (p > own).sum(-1) + 1
    return [Cell(*cell) for cell in zip(*(part.tolist() for part in (tokens, best, own[:, 0], ranks)))]


def _require_fitting(
    model: PreTrainedModel, layout: Layout, past: Sequence[int], tokens: Sequence[int | None], first: int
) -> None:
    count, vocabulary = layout.ids.shape[1] - first, model.config.vocab_size
    ids = [*past, *layout.ids[0].tolist(), *(token for token in tokens if token is not None)]
    if not 0 <= min(ids) <= max(ids) < vocabulary:
        raise ValueError(f"The forward has a token that the model's vocabulary of {vocabulary} has not.")
    context = context_of(model.config)
    if (most := int(layout.positions.max()) + 1) > context:
        raise ValueError(f"The forward has {most} positions; the model can read {context}.")
    if count * vocabulary > MOST_LOGITS:
        raise ValueError(
            f"The lens reads at most {MOST_LOGITS // vocabulary} positions of this model; the forward "
            f"predicts from {count}."
        )
