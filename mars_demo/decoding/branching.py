"""Branches of an answer at one of its tokens, and the probability of that token in AR decoding."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mars_demo.core.layout import causal
from mars_demo.core.scheduler import SCHEDULER
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import encoded
from mars_demo.decoding.reading import ALTERNATIVES, most_probable
from mars_demo.decoding.request import Branch, Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import encode_after
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.engine import Engine


def branch(checkpoint: Checkpoint, run: Run, at: int, instead: Sequence[int] | str) -> Branch:
    """Return a branch: the first `at` tokens of a run's answer, followed by other tokens or another text.

    Raises:
        ValueError: if the answer has no token `at`, or the tokenizer cannot encode the text there.
    """
    kept = _before(checkpoint, run, at)
    if isinstance(instead, str):
        instead = encode_after(checkpoint.tokenizer, kept, instead)
    if not instead:
        raise ValueError("A branch needs at least one token.")
    return Branch((*kept, *instead), run.settings.run, at)


def _before(checkpoint: Checkpoint, run: Run, at: int) -> list[int]:
    """Return the tokens of an answer before token `at`; check that the answer has that token."""
    ids, size = run.token_ids, checkpoint.model.get_input_embeddings().num_embeddings
    if not 0 <= at < len(ids):
        raise ValueError(f"The answer has no token {at + 1}; it ends after {len(ids)}.")
    if not all(0 <= token < size for token in ids):
        raise ValueError(f"This record has tokens that are not in {checkpoint.name}'s vocabulary.")
    return ids[:at]


def request_of(run: Run) -> Request:
    """Return the request of a recorded run, as far as its record says; τ is that of its last forward.

    Raises:
        ValueError: as `Request`.
    """
    settings = run.settings
    return Request(
        settings.mode,
        Request.tau if run.tau is None else run.tau,
        settings.criterion,
        window=None if settings.costs else settings.window,
        max_new_tokens=settings.max_new_tokens,
        raw=settings.raw,
        sampling=settings.sampling and Sampling(**settings.sampling),
        adaptive=bool(settings.costs),
    )


@dataclass(frozen=True)
class Prediction:
    """A model's prediction for one token of an answer, given the text before it."""

    probability: float  # of that token
    rank: int  # of that token; 1 if it is the most probable one
    top: list[tuple[str, float, int]]  # text, probability and id of the most probable tokens, best first


@torch.inference_mode()
def prediction(checkpoint: Checkpoint, run: Run, at: int) -> Prediction:
    """Return the model's AR prediction for the answer's token `at`.

    Raises:
        ValueError: if the answer has no token `at`, or the text does not fit the model.
    """
    kept, token = _before(checkpoint, run, at), run.token_ids[at]
    ids = [*encoded(checkpoint, run.settings.conversation, run.settings.raw), *kept]
    if len(ids) >= checkpoint.context:
        raise ValueError(
            f"{checkpoint.name} can read at most {checkpoint.context - 1} tokens, not {len(ids)}."
        )
    with SCHEDULER.turn():
        logits = Engine(checkpoint.decoder).forward(causal(ids), len(ids) - 1)
        p = logits.softmax(-1)[0].cpu()
    best = most_probable(p[None], min(ALTERNATIVES, len(p)))[0].tolist()
    return Prediction(
        probability=p[token].item(),
        rank=1 + int((p > p[token]).sum()),
        top=[(checkpoint.token_name(id), p[id].item(), id) for id in best],
    )
