"""Recorded runs, and small made-up runs with known numbers, as the files that visitors drop."""

import re

from mars_demo.core.trace import Pass, Run, Settings, Slot, read_text
from mars_demo.show import recordings

WORDS = "the quick brown fox jumps over the lazy dog and runs home again".split()


def run(mode, accepted: list[int], taus: list[float] | None = None, words=WORDS, window=4, ms=None) -> Run:
    """Return a run whose n-th forward accepts `accepted[n]` words.

    Slot k of a forward has confidence 0.99 - k/10, the first rejected slot at most 0.4. A forward takes
    `ms`, by default 10 in AR and 12 in other modes.
    """
    size, ms = (1, ms or 10.0) if mode == "ar" else (window, ms or 12.0)
    tau, name = taus and taus[0], f"made-up-{mode}"
    settings = Settings(mode, "toy", size, 3, tau, "Say it", 3, "cpu", "float32", 64, run=name)
    passes, at, left = [], 0, 0
    for number, count in enumerate(accepted, start=1):
        stop = "eos" if number == len(accepted) else None
        texts = [f" {word}" for word in words[at : at + size]] + [" ?"] * size
        slots = []
        for k, text in enumerate(texts[:size]):
            id = hash_of(text)
            if stop and k == count - 1:
                id, text = 0, ""
            confidence = 0.99 - k / 10 if k < count else 0.4 - k / 100
            slots.append(Slot(id, text, confidence, ((text, confidence), (" or", 0.005))))
        lossless = {}
        if mode == "lossless":
            lossless = {"drafts": left, "verified": min(count - 1, left), "groups": left + 1}
            left = size - count
        tau = taus[number - 1] if taus else None
        passes.append(Pass(number, tau, size + 1, ms, count, tuple(slots), stop, **lossless))
        at += count
    return Run(settings, iter(passes)).finish()


def recorded(name: str, mode: str) -> Run:
    """Return a run of a recording."""
    return next(run for run in read_text(recordings.recording(name)) if run.settings.mode == mode)


def hash_of(text: str) -> int:
    return 1 + sum(text.encode())


def file_of(*runs: Run) -> str:
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def race() -> str:
    """Return AR in 10 forwards and MARS in 4; its τ changes from 0.95 to 0.5 at forward 3."""
    return file_of(run("ar", [1] * 10), run("mars", [1, 3, 2, 4], [0.95, 0.95, 0.5, 0.5]))


def slowed(record: str) -> str:
    """Return the record with forwards 1000 times as long, so that no replay ends during a test."""
    return re.sub(r'"ms":([\d.]+)', lambda match: f'"ms":{1000 * float(match[1])}', record)
