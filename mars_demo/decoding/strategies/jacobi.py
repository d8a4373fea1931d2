"""Jacobi decoding, a baseline that needs no training."""

from mars_demo.core import layout as layouts
from mars_demo.decoding.answer import Answer, Strategy
from mars_demo.decoding.reading import Forward, count_verified, marked
from mars_demo.decoding.request import Request


def strategy(answer: Answer, request: Request) -> Strategy:
    """Decode by fixed-point iteration: the predictions after a wrong guess are the next guesses.

    It yields the tokens of greedy decoding. The latest token stands in for missing guesses. A pass records
    the accepted slots and, after them, the guesses for the next pass.
    """
    guesses: list[int] = []
    while not answer.stop:
        new, room = answer.begin(), min(request.window - 1, answer.room - 1)
        guesses = (guesses + [new[-1]] * room)[:room]
        layout = layouts.causal(new, answer.cached, guesses)
        own = yield Forward(layout, first=len(new) - 1)
        verified = count_verified(guesses, own)
        outcome = answer.step(
            [*marked(own[:verified], "guess"), own[verified], *marked(own[verified + 1 :], "guess")],
            verified + 1,
            keep=len(new) + verified,
            positions=layout.ids.shape[1],
            drafts=len(guesses),
            verified=verified,
        )
        yield outcome
        guesses = [reading.token for reading in outcome.rest]
