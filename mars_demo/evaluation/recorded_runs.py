"""Recorded runs of the page: made again, with median times."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from mars_demo.core.grammar import Grammar
from mars_demo.core.trace import Pass, Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.models.load import load_checkpoint

TIMES = 5  # repetitions of a recording


def record_run(entry: dict[str, Any]) -> str:
    """Run an entry of the index and return its record, with median times over `TIMES` rounds.

    Its modes take turns. With `adaptive`, the window follows the costs of forwards on this machine.

    Raises:
        ValueError: if a mode does not accept the same tokens each time.
    """
    checkpoint = measured(load_checkpoint(entry["model"]))
    longest = entry.get("max_new_tokens", Request.max_new_tokens)
    adaptive = entry.get("adaptive", False)
    grammar = Grammar(**entry["grammar"]) if "grammar" in entry else None

    def run(mode: str) -> Run:
        tau = entry["tau"][0][1]
        request = Request(mode, lambda: tau, max_new_tokens=longest, adaptive=adaptive, grammar=grammar)
        run = decode(checkpoint, entry["prompt"], request)
        while not run.stop:
            tau = [tau for first, tau in entry["tau"] if first <= run.forwards + 1][-1]
            next(run)
        return run

    for mode in entry["modes"]:
        run(mode)  # warm up
    rounds = [[run(mode) for mode in entry["modes"]] for _ in range(TIMES)]
    runs = [typical(same) for same in zip(*rounds)]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def typical(runs: Sequence[Run]) -> Run:
    """Return one run with median times per forward, which leave out other load on the machine.

    Raises:
        ValueError: if the runs did not accept the same tokens in the same forwards.
    """
    first, *others = runs
    accepted = [[step.accepted for step in run.passes] for run in runs]
    if any(run.token_ids != first.token_ids for run in others) or any(a != accepted[0] for a in accepted):
        raise ValueError(f"{first.settings.mode} did not accept the same tokens each time.")
    steps = zip(*(run.passes for run in runs))
    return Run(first.settings, (_median(same) for same in steps)).finish()


def _median(same: Sequence[Pass]) -> Pass:
    """Return one of several equal passes with median times, as far as all have them."""
    times = {key: [getattr(step, key) for step in same] for key in ("ms", "model_ms", "read_ms")}
    return replace(same[0], **{key: median(values) for key, values in times.items() if None not in values})
