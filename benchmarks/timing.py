"""Timing by turns: A B C A B C …, so that a slow moment of the machine falls on all methods alike."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mars_demo.progress import progress


@dataclass
class Timed:
    """Wall-clock seconds of each round, and what the last round's calls returned."""

    seconds: list[float] = field(default_factory=list)
    found: list[Any] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Return the seconds of the rounds with all tokens and forwards, of calls that return these."""
        tokens, forwards = (sum(numbers) for numbers in zip(*self.found))
        return {"seconds": self.seconds, "tokens": tokens, "forwards": forwards}


def take_turns(
    methods: Mapping[str, Callable[[Any], Any]], inputs: Sequence, rounds: int
) -> dict[str, Timed]:
    """Every method on every input, `rounds` times; the methods take turns input by input. A first call of
    each, which pays for its set-up, is not counted."""
    for method in methods.values():
        method(inputs[0])
    timed = {name: Timed() for name in methods}
    for number in range(rounds):
        for one in timed.values():
            one.seconds.append(0.0)
            one.found = []
        for value in progress(inputs, len(inputs), f"round {number + 1} of {rounds}", "input"):
            for name, method in methods.items():
                started = time.perf_counter()
                found = method(value)
                timed[name].seconds[-1] += time.perf_counter() - started
                timed[name].found.append(found)
    return timed
