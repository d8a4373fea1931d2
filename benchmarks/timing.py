"""Interleaved timing.

Methods take turns, A B C A B C …, so that a slow moment of the machine affects all alike.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tqdm import tqdm


@dataclass
class Timed:
    """The wall-clock seconds of each round, and the outputs of the last round."""

    seconds: list[float] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)

    def counts(self) -> dict[str, Any]:
        """Return the seconds and the sums of the outputs, which are counts by name."""
        names = self.outputs[0]
        return {"seconds": self.seconds} | {
            name: sum(output[name] for output in self.outputs) for name in names
        }


def take_turns(
    methods: Mapping[str, Callable[[Any], Any]],
    inputs: Sequence,
    rounds: int,
    summary: Callable[[Any, Any], Any] = lambda value, returned: returned,
) -> dict[str, Timed]:
    """Time every method on every input, `rounds` times, with the methods in turn for each input.

    A first call of each method is a warm-up and not timed. `summary` computes the output of an input and
    the returned value; it is not timed either.
    """
    for method in methods.values():
        method(inputs[0])
    timed = {name: Timed() for name in methods}
    for number in range(rounds):
        for one in timed.values():
            one.seconds.append(0.0)
            one.outputs = []
        for value in tqdm(inputs, f"round {number + 1} of {rounds}", unit="input", mininterval=1):
            for name, method in methods.items():
                started = time.perf_counter()
                returned = method(value)
                timed[name].seconds[-1] += time.perf_counter() - started
                timed[name].outputs.append(summary(value, returned))
    return timed
