"""Jacobi decoding, a baseline that needs no training."""

from mars_demo.core import layout as layouts
from mars_demo.decoding.answer import Answer
from mars_demo.decoding.reading import marked
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategy import Forward, Outcome, Strategy, count_verified


def strategy(answer: Answer, prompt_ids: list[int], request: Request, past: int = 0) -> Strategy:
    """Decode by fixed-point iteration: the predictions after a wrong guess are the next guesses.

    It yields the tokens of greedy decoding. The latest token stands in for missing guesses. A pass records
    the accepted slots and, after them, the guesses for the next pass.
    """
    new, guesses = prompt_ids[past:], []
    while not answer.stop:
        answer.begin()
        room = min(request.window - 1, answer.room - 1)
        guesses = (guesses + [new[-1]] * room)[:room]
        layout = layouts.causal(new, past, guesses)
        own = yield Forward(layout, first=len(new) - 1)
        verified = count_verified(guesses, own)
        step = answer.step(
            [*marked(own[:verified], "guess"), own[verified], *marked(own[verified + 1 :], "guess")],
            verified + 1,
            positions=layout.ids.shape[1],
            drafts=len(guesses),
            verified=verified,
        )
        yield Outcome(step, keep=len(new) + verified)
        past += len(new) + verified
        guesses = [reading.token for reading in own[verified + 1 :]]
        new = [own[verified].token]
