"""A growing answer: its tokens, its text, and the record of each forward."""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from mars_demo.core.trace import Pass, Slot
from mars_demo.decoding.matcher import Matcher
from mars_demo.decoding.reading import Forward, Reading, forced
from mars_demo.models.checkpoint import Checkpoint

MOST_FORCED = 100  # tokens at once; a record has bounded passes


@dataclass(frozen=True)
class Outcome:
    """The result of a forward: its pass, and how many of its positions may stay cached.

    rest: the readings after the accepted tokens and those that a grammar forces.
    """

    step: Pass
    keep: int
    rest: Sequence[Reading] = ()


# A module of `decoding.strategies` has a function `strategy(answer, request)`, which yields a `Forward`,
# receives its readings, and yields an `Outcome`, repeatedly. The caller has the model and sets
# `answer.cached`: `decode` drives one strategy with an engine, `serving` a batch of them.
Strategy = Generator[Forward | Outcome, list[Reading] | None, None]


@dataclass
class Answer:
    """An answer so far: its tokens, its stop reason, and the text that can be shown."""

    checkpoint: Checkpoint
    prompt_ids: Sequence[int]
    limit: int  # the most tokens
    stop_strings: tuple[str, ...] = ()
    matcher: Matcher | None = None  # of its grammar
    ids: list[int] = field(default_factory=list)
    cached: int = 0  # leading tokens of prompt and answer that the caller of the strategy has cached
    stop: str | None = None
    passes: int = 0
    _started: float = 0.0
    _accepted: list[Slot] = field(default_factory=list)  # of the current forward
    _shown: int = 0  # number of ids whose text has been returned
    _start: int = 0  # index of the first id of the decoding context
    _context: str = ""  # the returned text from `_start` on
    _end: str = ""  # the end of the text, which may contain the start of a stop string

    def admitted(self, accepted: Sequence[Reading], drafts: list[Reading]) -> list[Reading]:
        """Return the leading drafts that the grammar allows after these accepted tokens."""
        if not self.matcher:
            return drafts
        with self.matcher.trial():
            for reading in accepted:
                self.matcher.advance(reading.token)
            return [*takewhile(lambda draft: self.matcher.advance(draft.token), drafts)]

    @property
    def room(self) -> int:
        """Return the number of tokens that may still be added."""
        return self.limit - len(self.ids)

    @property
    def text_ids(self) -> list[int]:
        """Return the tokens of the prompt and the answer."""
        return [*self.prompt_ids, *self.ids]

    def begin(self) -> list[int]:
        """Start the clock of the next forward, and return the tokens that are not cached yet."""
        self._started = time.perf_counter()
        # Forced tokens come before the first forward too, but at least one is left to accept with it.
        while self.matcher and not self.passes and self.matcher.forced and self.room > 1:
            if self.matcher.forced[0] in self.checkpoint.end_ids or len(self.ids) == MOST_FORCED:
                break
            self._accept(forced(self.matcher.forced[0]))
        return self.text_ids[self.cached :]

    def step(
        self, readings: Sequence[Reading], count: int, keep: int, *, tau: float | None = None, **counts: int
    ) -> Outcome:
        """Accept the first `count` readings, fewer if the answer ends within them, and record the pass.

        The tokens that a grammar forces after them are accepted too.

        keep: the number of leading positions that may stay cached.
        counts: fields of the `Pass`: `positions` and the counts of a verifying mode.
        """
        before = len(self._accepted)
        for reading in readings[:count]:
            if not self.stop:
                self._accept(reading)
        rest = list(readings[len(self._accepted) - before :])
        forced_ids = self._force()
        overlap = [reading.token for reading in rest[: len(forced_ids)]]
        rest = rest[len(forced_ids) :] if overlap == forced_ids else []
        self.passes += 1
        accepted, self._accepted = self._accepted, []
        step = Pass(
            number=self.passes,
            tau=tau,
            ms=(time.perf_counter() - self._started) * 1000,
            accepted=len(accepted),
            slots=(*accepted, *(self._slot(reading) for reading in rest)),
            stop=self.stop,
            **counts,
        )
        return Outcome(step, keep, rest)

    def _force(self) -> list[int]:
        """Accept the tokens that the grammar forces, and return them."""
        count = len(self.ids)
        while (
            self.matcher and self.matcher.forced and not self.stop and len(self.ids) - count < MOST_FORCED
        ):
            self._accept(forced(self.matcher.forced[0]))
        return self.ids[count:]

    def _accept(self, reading: Reading) -> None:
        self.ids.append(reading.token)
        if reading.token in self.checkpoint.end_ids:
            self.stop = "eos"
        elif not self.room:
            self.stop = "length"
        text = self._next_text()
        if self.stop != "eos" and self._completes(reading.token, text):
            self.stop = "stop string"
        if self.matcher:
            self.matcher.advance(reading.token)
        self._accepted.append(self._slot(reading, text))

    def _slot(self, reading: Reading, text: str | None = None) -> Slot:
        name = self.checkpoint.token_name
        return Slot(
            id=reading.token,
            text=name(reading.token) if text is None else text,
            score=reading.score,
            top=tuple(zip(map(name, reading.candidates), reading.probabilities)),
            source=reading.source,
            candidates=tuple(reading.candidates),
        )

    def _completes(self, token: int, text: str) -> bool:
        if not self.stop_strings:
            return False
        end = self._end + text
        self._end = end[-max(map(len, self.stop_strings)) :]
        # A special token has a name but no text.
        named = not text and self.checkpoint.token_name(token) in self.stop_strings
        return named or any(string in end for string in self.stop_strings)

    def _next_text(self) -> str:
        """Return the text that the latest token completes, up to the last complete character."""
        # With a few ids of context, because some tokenizers decode the first token differently.
        if self._shown - self._start > 16:
            self._start = self._shown - 4
            self._context = self._decode(self.ids[self._start : self._shown])
        text = self._decode(self.ids[self._start :])
        if text.endswith("\ufffd") and not self.stop:
            return ""
        new, self._context = text[len(self._context) :], text
        self._shown = len(self.ids)
        return new

    def _decode(self, ids: list[int]) -> str:
        return self.checkpoint.tokenizer.decode(
            ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
