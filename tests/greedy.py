"""Greedy decoding by transformers, and comparisons with it that tolerate rounding errors.

Computations of different shapes round differently. If the two best tokens of a model lie within `TIE` of
each other, either may come first, and the answers have different contexts from there on: the comparison
ends. Everywhere else, tokens must be equal.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import torch

from mars_demo.core.layout import causal
from mars_demo.core.trace import Pass, Run, Slot
from mars_demo.decoding.decode import encoded
from mars_demo.decoding.sampling import Sampling, gumbel
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.engine import Engine

TIE = 1e-4


def generate(checkpoint: Checkpoint, prompt: str | list[int], count: int, **more) -> list[int]:
    """Return at most `count` tokens that answer a prompt or continue token ids; `more` settings."""
    ids = encode_prompt(checkpoint.tokenizer, prompt) if isinstance(prompt, str) else prompt
    inputs = torch.tensor([ids])
    output = checkpoint.model.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        do_sample=False,
        max_new_tokens=count,
        eos_token_id=sorted(checkpoint.end_ids),
        pad_token_id=checkpoint.tokenizer.pad_token_id,
        **more,
    )
    return output[0, inputs.shape[1] :].tolist()


def check_tokens(checkpoint: Checkpoint, run: Run, expected: Sequence[int]) -> None:
    """Assert that an answer has the expected tokens, up to a tie of the two best tokens.

    One forward over the whole text decides whether the first difference is a tie.
    """
    settings, ids = run.settings, list(run.token_ids)
    pairs = enumerate(zip_longest(ids, expected))
    at = next((place for place, (one, other) in pairs if one != other), None)
    if at is None:
        return
    text = encoded(checkpoint, settings.conversation, settings.raw) + ids[:at]
    [logits] = Engine(checkpoint.decoder).forward(causal(text), first=len(text) - 1)
    if settings.sampling:
        sampling = Sampling(**settings.sampling)
        noise = gumbel(sampling.seed, len(text) - 1, len(logits), logits.device)
        logits = sampling.scores(logits[None])[0] + noise
    best, second = logits.topk(2).values.tolist()
    assert best - second < TIE, f"token {at} of {ids} differs from {list(expected)}"


def check_passes(
    run: Iterable[Pass], expected: Iterable[tuple[Sequence[int], int]], tie: float = TIE
) -> int:
    """Assert that passes chose and accepted the expected tokens, up to a tie; return the compared passes.

    A pass may have more slots than expected tokens; the tokens of the others are not compared. Sampled
    tokens must be equal: they have no ties.
    """
    steps, expected = list(run), list(expected)
    for number, (step, (ids, accepted)) in enumerate(zip(steps, expected)):
        for slot, token in zip(step.slots, ids):
            if slot.id != token:
                assert _is_tie(slot, tie), f"pass {step.number} chose {slot.id}, not {token}"
                return number
        if step.accepted != accepted:
            assert _is_near_threshold(step, tie), (
                f"pass {step.number} accepted {step.accepted}, not {accepted}"
            )
            return number
        assert len(ids) <= len(step.slots)
    assert len(steps) == len(expected)
    return len(steps)


def check_same_passes(run: Run, other: Run) -> int:
    """Assert that two runs of one mode chose and accepted the same tokens, up to a tie; return as above."""
    decisions = [([slot.id for slot in step.slots], step.accepted) for step in other.passes]
    count = check_passes(run.passes, decisions)
    for one, two in zip(run.passes[:count], other.passes):
        assert len(one.slots) == len(two.slots)
        assert (one.stop, one.drafts, one.verified) == (two.stop, two.drafts, two.verified)
    return count


def _is_tie(slot: Slot, tie: float) -> bool:
    """Return whether the two best tokens of a slot are a tie; log p differs by as much as the logits."""
    if len(slot.top) < 2 or slot.id not in slot.candidates[:2]:
        return False
    (_, best), (_, second) = slot.top[:2]
    return second > 0 and math.log(best / second) < tie


def _is_near_threshold(step: Pass, tie: float) -> bool:
    """Return whether a score lies within `tie` of τ or of another score."""
    scores = sorted(slot.score for slot in step.slots)
    gaps = [high - low for low, high in zip(scores, scores[1:])]
    if step.tau is not None and 0 < step.tau < 1:
        gaps += [abs(score - step.tau) for score in scores]
    return min(gaps, default=1.0) < tie
