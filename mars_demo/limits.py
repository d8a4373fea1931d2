"""What a visitor may take of a server. The operator sets each limit in an environment variable."""

from __future__ import annotations

import os


class Limit:
    """A whole number, read on access from `MARS_DEMO_` and its name in capitals. `about` tells the
    documents what it limits; with a `least` of 0 that can be switched off."""

    def __init__(self, default: int, about: str, least: int = 1):
        self.default, self.about, self.least = default, about, least

    def __set_name__(self, owner: type[Limits], name: str):
        self.variable = f"MARS_DEMO_{name.upper()}"

    def __get__(self, limits: Limits | None, owner: type[Limits]) -> int:
        """
        Raises:
            ValueError: if the variable holds something else.
        """
        if limits is None:
            return self
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdigit() and int(text) >= self.least):
            raise ValueError(f"{self.variable} must be a whole number from {self.least} on, not {text!r}.")
        return int(text)


class Limits:
    prompt = Limit(20_000, "characters of a prompt, and of a conversation with its system prompt")
    answer = Limit(1024, "tokens of an answer over HTTP; those of the page have 256", least=256)
    tokens = Limit(4096, "tokens of a conversation and its answer over HTTP; the cache has room for them")
    races = Limit(64, "races that take turns at once; more visitors wait in the queue")
    waiting = Limit(200, "visitors in a queue; more are asked to come back later")
    race_seconds = Limit(300, "seconds until a race is stopped, slow motion included")
    record = Limit(8, "MiB of a record that is put on the stage")
    parameters = Limit(200, "million parameters of a base that is trained")
    trained = Limit(8, "trained models that are kept at once, of all visitors")
    kept = Limit(60, "minutes that trained models are kept")
    train_steps = Limit(2000, "steps of a training", least=0)
    train_minutes = Limit(30, "minutes of a training with its pauses; then it stops and is kept")
    disk = Limit(4096, "MiB of temporary files of all visitors")


LIMITS = Limits()


def all_limits() -> dict[str, Limit]:
    return {name: limit for name, limit in vars(Limits).items() if isinstance(limit, Limit)}


def refuse_long(*texts: str) -> None:
    """
    Raises:
        ValueError: if a prompt and what is told with it are longer together than `LIMITS.prompt`.
    """
    if (length := sum(map(len, texts))) > LIMITS.prompt:
        raise ValueError(
            f"The prompt and its conversation have {length} characters; at most {LIMITS.prompt} are read "
            "here."
        )


def check() -> None:
    """
    Raises:
        ValueError: if a variable holds an invalid limit.
    """
    for name in all_limits():
        getattr(LIMITS, name)
