"""Reference implementations of all modes: one whole forward per step, no cache, no mask groups."""

import math
from itertools import takewhile
from typing import NamedTuple

import torch
from greedy import check_passes

from mars_demo.models.chat import encode_prompt

Slot = tuple[int, float]  # a token and its score

# The score of a token, from the probabilities of all tokens in float64.
SCORES = {
    "probability": lambda p, token: p[token],
    # exp(-H) is the product of all p to the power p
    "entropy": lambda p, token: (p**p).prod() * p[token] / p.max(),
    "margin": lambda p, token: (p[token] - torch.cat([p[:token], p[token + 1 :]]).max()).clamp(min=0),
}


class Step(NamedTuple):
    """The expected record of a pass."""

    slots: list[Slot]
    accepted: int
    drafts: int | None = None
    verified: int | None = None
    draft_forwards: int | None = None


def after(checkpoint, text: list[int], more: list[int], criterion: str = "probability") -> list[Slot]:
    """Return the model's predictions after `text` and after each token of `more`."""
    with torch.no_grad():
        logits = checkpoint.model(torch.tensor([text + more])).logits[0, len(text) - 1 :]
    return predicted(logits, criterion)


def score(criterion: str, logits: torch.Tensor, token: int) -> float:
    return SCORES[criterion](logits.double().softmax(-1), token).item()


def predicted(logits: torch.Tensor, criterion: str) -> list[Slot]:
    return [(token, score(criterion, row, token)) for row, token in zip(logits, logits.argmax(-1).tolist())]


def masked(checkpoint, text: list[int], masks: int, criterion: str = "probability") -> list[Slot]:
    """Return slots 1 to masks + 1 of a window after `text`."""
    return after(checkpoint, text, [checkpoint.mask_id] * masks, criterion)


def tokens(slots: list[Slot]) -> list[int]:
    return [token for token, _ in slots]


def confident(slots: list[Slot], tau: float) -> int:
    """Count the accepted slots: slot 1, then slots while they reach τ; at τ = 1 slot 1 alone."""
    return 1 + (len(list(takewhile(lambda slot: slot[1] >= tau, slots[1:]))) if tau < 1 else 0)


def verified_drafts(drafts: list[int], chosen: list[Slot]) -> int:
    """Count the leading drafts that the model would have chosen."""
    return next((i for i, draft in enumerate(drafts) if draft != chosen[i][0]), len(drafts))


def joined(checkpoint, slots: list[Slot], most: int, room: int) -> int:
    """Count the tokens that join the answer: at most `most` and `room`, up to an end token."""
    most = min(most, room)
    return next((i for i in range(1, most) if slots[i - 1][0] in checkpoint.end_ids), most)


def answer(checkpoint, prompt: str, count: int, next_step) -> list[Step]:
    """Return the passes up to an end token or `count` tokens.

    `next_step(text, room)` returns slots, the number of accepted ones, and the remaining fields of a
    `Step`.
    """
    text, steps, room = encode_prompt(checkpoint.tokenizer, prompt), [], count
    while room and not (steps and text[-1] in checkpoint.end_ids):
        slots, accepted, *fields = next_step(text, room)
        accepted = joined(checkpoint, slots, accepted, room)
        steps.append(Step(slots, accepted, *fields))
        text = text + tokens(slots[:accepted])
        room -= accepted
    return steps


def window(
    checkpoint, prompt: str, slots: int, tau: float, count: int, criterion: str = "probability"
) -> list[Step]:
    """Decode as in section 3.3; without masks at τ = 1, where no mask slot could be accepted."""

    def step(text, room):
        window_slots = masked(checkpoint, text, 0 if tau >= 1 else min(slots, room) - 1, criterion)
        return window_slots, confident(window_slots, tau)

    return answer(checkpoint, prompt, count, step)


def lossless(checkpoint, prompt: str, slots: int, linear: bool, count: int, copies: int = 16) -> list[Step]:
    """Draft and verify.

    Masks after the verified text make the next drafts; in the linear layout, only if every draft was
    accepted. An n-gram draft replaces them if more of its tokens are expected to be accepted.
    """
    drafts: list[int] = []
    match, history = 0, []  # match length of n-gram drafts; pairs (match length, accepted)

    def step(text, room):
        nonlocal drafts, match
        checked = drafts[: room - 1]
        predictions = after(checkpoint, text, checked)
        verified = verified_drafts(checked, predictions)
        if match:
            history.extend((match, True) for _ in range(verified))
            history.extend((match, False) for _ in checked[verified : verified + 1])
        draft_slots = masked(checkpoint, text + checked[:verified], min(slots, room) - 1)[1:]
        if linear and verified < len(checked):
            draft_slots = []
        match, copy = copied(text + tokens(predictions[: verified + 1]), history, copies)
        if expected_accepted(copy) > expected_accepted(draft_slots):
            draft_slots = copy
        else:
            match = 0
        draft_slots = draft_slots[: max(0, room - verified - 2)]  # the room left in the answer
        drafts = tokens(draft_slots)
        return predictions[: verified + 1] + draft_slots, verified + 1, len(checked), verified

    return answer(checkpoint, prompt, count, step)


def expected_accepted(drafts: list[Slot]) -> float:
    """Return the expected number of accepted drafts; scores are probabilities of acceptance."""
    return sum(math.prod(score for _, score in drafts[: i + 1]) for i in range(len(drafts)))


def earlier(text: list[int]) -> tuple[int, int]:
    """Return the length of the longest repeated suffix, and the position after its last earlier occurrence.

    Suffixes have 3 to 8 tokens. Each length searches the text anew.
    """
    for length in range(8, 2, -1):
        for place in range(len(text) - 1, length - 1, -1):
            if text[place - length : place] == text[-length:]:
                return length, place
    return 0, 0


def copied(text: list[int], history: list[tuple[int, bool]], longest: int) -> tuple[int, list[Slot]]:
    """Return the match length and a draft copied from after the match, accepted with p ≥ 1/4 as a whole."""
    match, place = earlier(text)
    if not match or not longest:
        return 0, []
    outcomes = [accepted for length, accepted in history if length == match]
    chance = (match + sum(outcomes)) / (match + 2 + len(outcomes))
    long, copy = list(text), []
    while len(copy) < longest and chance ** (len(copy) + 1) >= 0.25:
        copy.append((long[place + len(copy)], chance))
        long.append(copy[-1][0])
    return match, copy


def jacobi(checkpoint, prompt: str, slots: int, count: int) -> list[Step]:
    """Guess what the model predicted after a wrong guess; without a guess, repeat the last token."""
    guesses: list[int] = []

    def step(text, room):
        nonlocal guesses
        guessed = min(slots, room) - 1
        checked = (guesses + [text[-1]] * guessed)[:guessed]
        predictions = after(checkpoint, text, checked)
        verified = verified_drafts(checked, predictions)
        guesses = tokens(predictions[verified + 1 :])
        return predictions, verified + 1, len(checked), verified

    return answer(checkpoint, prompt, count, step)


def drafted(draft, text: list[int], count: int) -> tuple[list[int], int]:
    """Return `count` tokens of a draft model at τ = 0.5, and the number of its forwards."""
    drafts: list[int] = []
    forwards = 0
    while len(drafts) < count:
        slots = masked(draft, text + drafts, min(draft.largest_window, count - len(drafts)) - 1)
        drafts += tokens(slots[: confident(slots, 0.5)])
        forwards += 1
    return drafts, forwards


def speculative(
    checkpoint, draft, prompt: str, slots: int, tau: float, count: int, criterion: str = "probability"
) -> list[Step]:
    """Decode as in section 4.6: verify the drafts of a second model, then continue with masks."""

    def step(text, room):
        checked, forwards = drafted(draft, text, min(slots, room) - 1)
        predictions = after(checkpoint, text, checked, criterion)
        verified = verified_drafts(checked, predictions)
        window_slots = predictions[: verified + 1]
        if checkpoint.mask_id is not None and tau < 1:
            masks = min(slots, room) - 1
            window_slots += masked(checkpoint, text + checked[:verified], masks, criterion)[1:]
        accepted = verified + confident(window_slots[verified:], tau)
        return window_slots, accepted, len(checked), verified, forwards

    return answer(checkpoint, prompt, count, step)


def block_diffusion(
    checkpoint, prompt: str, size: int, tau: float, count: int, criterion: str = "probability"
) -> list[list[int]]:
    """Return the tokens that each pass accepts: those filled without a gap.

    The prompt is causal, blocks are bidirectional.
    """
    prompt_ids = encode_prompt(checkpoint.tokenizer, prompt)
    done: list[int] = []
    passes: list[list[int]] = []
    while True:
        block: list[int | None] = [None] * min(size, count - len(done))
        start, emitted = len(prompt_ids) + len(done), 0
        while emitted < len(block):
            ids = prompt_ids + done + [checkpoint.mask_id if t is None else t for t in block]
            visible = torch.ones(len(ids), len(ids), dtype=torch.bool).tril()
            for first in range(len(prompt_ids), len(ids), size):
                visible[first : first + size, first : first + size] = True
            with torch.no_grad():
                logits = checkpoint.model(
                    torch.tensor([ids]),
                    attention_mask=visible[None, None],
                    position_ids=torch.arange(len(ids))[None],
                ).logits[0, start:]
            slots = predicted(logits, criterion)
            unfilled = [i for i, filled in enumerate(block) if filled is None]
            most_confident = max(unfilled, key=lambda i: slots[i][1])
            for i in unfilled:
                if i == most_confident or (tau < 1 and slots[i][1] >= tau):
                    block[i] = slots[i][0]
            accepted = []
            while emitted < len(block) and block[emitted] is not None:
                accepted.append(block[emitted])
                emitted += 1
                if accepted[-1] in checkpoint.end_ids or len(done) + emitted == count:
                    return [*passes, accepted]
            passes.append(accepted)
        done += block


def check(run, expected: list[Step]) -> None:
    """Assert that every slot of every pass equals that of the reference implementation, up to a tie."""
    steps = list(run)
    count = check_passes(steps, [(tokens(step.slots), step.accepted) for step in expected])
    steps, expected = steps[:count], expected[:count]
    assert [len(step.slots) for step in steps] == [len(step.slots) for step in expected]
    assert [(step.drafts, step.verified, step.draft_forwards) for step in steps] == [
        (step.drafts, step.verified, step.draft_forwards) for step in expected
    ]
    torch.testing.assert_close(
        torch.tensor([slot.score for step in steps for slot in step.slots]),
        torch.tensor([score for step in expected for _, score in step.slots]),
        atol=1e-4,
        rtol=1e-3,
    )


def check_blocks(run, expected: list[list[int]]) -> None:
    """Assert that the passes of block diffusion accept the expected tokens, up to a tie."""
    check_passes(run, [(ids, len(ids)) for ids in expected])
