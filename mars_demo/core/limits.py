"""The limits of a visitor. The operator sets each one in an environment variable."""

from __future__ import annotations

import os

NEW_TOKENS = 256  # of an answer, unless somebody asks for another number


class Limit:
    """A whole number, read on access from the variable `MARS_DEMO_` plus its name in capitals.

    about: its description in the docs.
    least: the smallest value; if it is 0, 0 switches the feature off.
    """

    def __init__(self, default: int, about: str, least: int = 1):
        self.default, self.about, self.least = default, about, least

    def __set_name__(self, owner: type[Limits], name: str):
        self.variable = f"MARS_DEMO_{name.upper()}"

    def __get__(self, limits: Limits | None, owner: type[Limits]) -> int:
        """Return the current value.

        Raises:
            ValueError: if the variable does not hold a valid number.
        """
        if limits is None:
            return self
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdigit() and int(text) >= self.least):
            raise ValueError(f"{self.variable} must be a whole number ≥ {self.least}, not {text!r}.")
        return int(text)


class Limits:
    """All limits and their defaults."""

    prompt = Limit(20_000, "characters of a prompt")
    answer = Limit(1024, "tokens of an answer", least=NEW_TOKENS)
    races = Limit(64, "concurrent races, or requests to the endpoint; more visitors wait in the queue")
    waiting = Limit(200, "visitors in a queue; more are asked to come back later")
    race_seconds = Limit(300, "seconds until a race or a sweep is stopped, including pauses")
    record = Limit(8, "MiB of a record that a visitor loads onto the stage")
    parameters = Limit(200, "million parameters of a base model for training")
    trained = Limit(8, "trained models in memory at once, for all visitors together")
    train_steps = Limit(2000, "steps of a training run", least=0)
    train_minutes = Limit(30, "minutes of a training run, with pauses; then it stops and keeps its model")


LIMITS = Limits()


def all_limits() -> dict[str, Limit]:
    """Return all limits by name."""
    return {name: limit for name, limit in vars(Limits).items() if isinstance(limit, Limit)}


def refuse_long(*texts: str) -> None:
    """Check the length of a prompt, or of the messages of a record.

    Raises:
        ValueError: if the texts together are longer than `LIMITS.prompt`.
    """
    if (length := sum(map(len, texts))) > LIMITS.prompt:
        raise ValueError(f"The text has {length} characters; the limit is {LIMITS.prompt}.")


def check_limits() -> None:
    """Check all variables.

    Raises:
        ValueError: if a variable holds an invalid limit.
    """
    for name in all_limits():
        getattr(LIMITS, name)
