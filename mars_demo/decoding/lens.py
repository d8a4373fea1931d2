"""The logit lens: each layer's hidden states, read through the model's final norm and head.

The method is nostalgebraist's: "interpreting GPT: the logit lens" (2020),
https://www.lesswrong.com/posts/AcKRB8wDpdaN6v6ru/interpreting-gpt-the-logit-lens. It is an approximation:
the head was trained to read the last layer only, and cannot read other representations of earlier layers.
At the last layer, the lens is the model's own output.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import takewhile

import torch
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel

from mars_demo.core import layout as layouts
from mars_demo.core.layout import Layout, Role
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.models.runtime.decoder import logits_of, run

MOST_LOGITS = 2**25  # logits of one layer


@dataclass(frozen=True)
class Cell:
    """The prediction of one layer in a slot."""

    token: int  # the most probable token
    probability: float
    wanted: float  # the probability of the slot's final token
    rank: int  # of the slot's final token, from 1


@dataclass(frozen=True)
class Lens:
    """The predictions of all layers of a forward, slot by slot. Layer 0 stands for the embeddings."""

    tokens: list[int]  # the final tokens of the slots
    verified: int  # accepted drafts; the slots after them are those of the masks that see these drafts
    layers: list[list[Cell]]

    def settled(self, slot: int) -> int | None:
        """Return the first layer from which on the final token is the most probable one, or None."""
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
    """Return the lens of one forward: a layout of one sequence after the `past` token ids.

    Each step takes a turn of the scheduler.

    tokens: the final tokens of the slots from a record; missing or None ones are the most probable tokens
        of the last layer.
    verified: the number of accepted drafts of the layout; None to verify them with the last layer.

    Raises:
        ValueError: if the forward does not fit the model or is too large, or if the last step before the
            model's head is not a norm.
    """
    first = _last_real(layout)
    _require_fitting(model, layout, past, tokens, first)
    with torch.inference_mode():
        norm, states, last = _states(model, layout, past, first)
        with SCHEDULER.turn():
            output = logits_of(model, last)
        chosen = output.argmax(-1).tolist()
        if verified is None:
            verified = _agreeing(layout, chosen, first)
        slots = [position - first for position in slot_rows(layout, verified)]
        recorded = [*tokens, *[None] * len(slots)]
        final = [chosen[slot] if token is None else token for slot, token in zip(slots, recorded)]
        cells = []
        for state in states:
            with SCHEDULER.turn():  # one turn per layer, so that other work need not wait for all layers
                cells.append(_cells(logits_of(model, norm(state[slots])), final))
        return Lens(final, verified, [*cells, _cells(output[slots], final)])


def _states(
    model: PreTrainedModel, layout: Layout, past: Sequence[int], first: int
) -> tuple[nn.Module, list[Tensor], Tensor]:
    """Return the final norm, and from position `first` on the layers' inputs and the head's input.

    The inputs have the shape [n - first, width].
    """
    cache, normed = DynamicCache(), {}
    if past:
        with SCHEDULER.turn():
            run(model, layouts.causal(past), cache)
    with SCHEDULER.turn(), ExitStack() as hooks:
        for name, module in model.base_model.named_modules():
            is_in_layer = any(part.isdigit() for part in name.split("."))
            if "norm" in type(module).__name__.lower() and not is_in_layer:
                hook = module.register_forward_hook(lambda norm, _, output: normed.update({norm: output}))
                hooks.enter_context(hook)
        outputs = run(model, layout, cache, output_hidden_states=True)
    last = outputs.last_hidden_state
    norm = next((norm for norm, output in normed.items() if torch.equal(output, last)), None)
    if norm is None:
        raise ValueError(
            f"The lens does not support model type {model.config.model_type}: the last step before its "
            "output head is not a norm."
        )
    return norm, [state[0, first:] for state in outputs.hidden_states[:-1]], last[0, first:]


def slot_rows(layout: Layout, verified: int) -> list[int]:
    """Return the positions that predict slots: last real token, accepted drafts, masks after them."""
    masks = [mask for mask in _positions(layout, Role.MASK) if layout.groups[0, mask] == verified]
    return [_last_real(layout), *_positions(layout, Role.DRAFT)[:verified], *masks]


def _positions(layout: Layout, *roles: Role) -> list[int]:
    return [position for position, role in enumerate(layout.roles[0].tolist()) if role in roles]


def _last_real(layout: Layout) -> int:
    """Return the position of the last token that is neither a draft nor a mask."""
    return _positions(layout, Role.PROMPT, Role.NEW)[-1]


def _agreeing(layout: Layout, chosen: list[int], first: int) -> int:
    """Return the number of leading drafts that equal the model's own choices."""
    drafts = _positions(layout, Role.DRAFT)
    agreeing = takewhile(lambda draft: layout.ids[0, draft] == chosen[draft - 1 - first], drafts)
    return sum(1 for _ in agreeing)


def _cells(logits: Tensor, final: list[int]) -> list[Cell]:
    """Return a cell per slot from logits [slots, vocabulary] and the slots' final tokens."""
    p = logits.softmax(-1)
    best, tokens = p.max(-1)
    own = p.gather(-1, torch.tensor(final, device=p.device)[:, None])
    ranks = (p > own).sum(-1) + 1
    return [Cell(*cell) for cell in zip(*(part.tolist() for part in (tokens, best, own[:, 0], ranks)))]


def _require_fitting(
    model: PreTrainedModel, layout: Layout, past: Sequence[int], tokens: Sequence[int | None], first: int
) -> None:
    count, vocabulary = layout.ids.shape[1] - first, model.config.vocab_size
    ids = [*past, *layout.ids[0].tolist(), *(token for token in tokens if token is not None)]
    if not 0 <= min(ids) <= max(ids) < vocabulary:
        raise ValueError(
            f"The forward has a token that is not in the model's vocabulary of {vocabulary} tokens."
        )
    context = model.config.max_position_embeddings
    if (most := int(layout.positions.max()) + 1) > context:
        raise ValueError(f"The forward has {most} positions; the model can read {context}.")
    if count * vocabulary > MOST_LOGITS:
        raise ValueError(
            f"The lens of this model reads at most {MOST_LOGITS // vocabulary} positions; the forward "
            f"predicts from {count}."
        )
