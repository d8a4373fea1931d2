"""The answer while it grows: its tokens, its text, and the record of each forward."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from mars_demo.decoding.reading import Reading
from mars_demo.decoding.trace import Pass, Slot
from mars_demo.models.checkpoint import Checkpoint


@dataclass
class Answer:
    """The answer so far: its tokens, why it stopped, and the text that is ready to be shown."""

    checkpoint: Checkpoint
    limit: int  # tokens it may have
    stop_strings: tuple[str, ...] = ()
    ids: list[int] = field(default_factory=list)
    stop: str | None = None
    passes: int = 0
    _started: float = 0.0
    _shown: int = 0  # ids whose text has been shown
    _start: int = 0  # where the context of the next text begins,
    _context: str = ""  # and the text from there that has been shown
    _end: str = ""  # of the text, in which a stop string may have begun

    @property
    def room(self) -> int:
        return self.limit - len(self.ids)

    def give(self, ids: Sequence[int]) -> list[str]:
        """Let the answer begin with tokens that no forward accepts; the text of each.

        Raises:
            ValueError: if the model has no such token, or nothing could come after them.
        """
        known = self.checkpoint.model.get_input_embeddings().num_embeddings
        if wrong := [token for token in ids if not 0 <= token < known]:
            raise ValueError(f"{self.checkpoint.name} has no token {wrong[0]}; it has {known}.")
        texts = []
        for token in ids:
            self.ids.append(token)
            texts.append(self._next_text())
            if token in self.checkpoint.end_ids or self._completes(token, texts[-1]):
                raise ValueError("An answer ends with this token: there is nothing to decode after it.")
        if self.room < 1:
            raise ValueError(
                f"An answer has at most {self.limit} tokens here: nothing could come after these."
            )
        return texts

    def begin(self) -> None:
        """Start the clock of the next forward."""
        self._started = time.perf_counter()

    def step(
        self, readings: Sequence[Reading], wanted: int, *, tau: float | None = None, **counts: int
    ) -> Pass:
        """Accept the first `wanted` readings, fewer if the answer ends within them, and record the pass.

        counts: fields of the `Pass`: `positions` and what a verifying mode counts.
        """
        texts = []
        for reading in readings[:wanted]:
            self.ids.append(reading.token)
            if reading.token in self.checkpoint.end_ids:
                self.stop = "eos"
            elif not self.room:
                self.stop = "length"
            texts.append(self._next_text())
            if self.stop != "eos" and self._completes(reading.token, texts[-1]):
                self.stop = "stop string"
            if self.stop:
                break
        self.passes += 1
        name = self.checkpoint.token_name
        slots = tuple(
            Slot(
                id=reading.token,
                text=texts[i] if i < len(texts) else name(reading.token),
                score=reading.score,
                top=tuple(zip(map(name, reading.candidates), reading.probabilities)),
                source=reading.source,
                candidates=tuple(reading.candidates),
            )
            for i, reading in enumerate(readings)
        )
        return Pass(
            number=self.passes,
            tau=tau,
            ms=(time.perf_counter() - self._started) * 1000,
            accepted=len(texts),
            slots=slots,
            stop=self.stop,
            **counts,
        )

    def _completes(self, token: int, text: str) -> bool:
        """Return whether the newest token, and the text that came with it, complete a stop string."""
        if not self.stop_strings:
            return False
        end = self._end + text
        self._end = end[-max(map(len, self.stop_strings)) :]
        # A special token has a name but no text.
        named = not text and self.checkpoint.token_name(token) in self.stop_strings
        return named or any(string in end for string in self.stop_strings)

    def _next_text(self) -> str:
        """Return the text that the newest token finishes. An unfinished character waits for its rest."""
        # With a few ids of context: some tokenizers write a token differently at the start of a text.
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
