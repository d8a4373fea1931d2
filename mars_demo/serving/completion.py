"""The answer of a server's job in OpenAI's form: whole, or in chunks as its passes are made."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from mars_demo.serving.refusal import Refusal

if TYPE_CHECKING:
    from mars_demo.decoding.trace import Run
    from mars_demo.serving.server import Job


class Cut:
    """A text that ends before the first of some strings, given out as far as it is certain."""

    def __init__(self, strings: Sequence[str]):
        self._strings, self._held, self._ended = strings, "", False

    def add(self, text: str) -> str:
        """Return what can be shown now; an end that may begin one of the strings is held back."""
        if self._ended:
            return ""
        self._held += text
        found = [at for string in self._strings if (at := self._held.find(string)) >= 0]
        self._ended = bool(found)
        certain = min(found) if found else len(self._held) - self._begun()
        shown, self._held = self._held[:certain], self._held[certain:]
        return shown

    def rest(self) -> str:
        """Return what was held back and turned out to be no such string."""
        return "" if self._ended else self._held

    def _begun(self) -> int:
        """Count the characters at the end that begin one of the strings."""
        return max(
            (n for string in self._strings for n in range(len(string)) if self._held.endswith(string[:n])),
            default=0,
        )


class Completion:
    """The answer that a job makes, under the name of its model."""

    def __init__(self, job: Job, model: str, stop_strings: Sequence[str]):
        self.job, self._cut = job, Cut(stop_strings)
        self._head = {"id": f"chatcmpl-{job.run.settings.run}", "created": int(time.time()), "model": model}

    async def whole(self) -> dict[str, Any]:
        """Return the answer once it is finished.

        Raises:
            Refusal: if the server ended before.
        """
        text = "".join([self._cut.add(step.text) async for step in self.job]) + self._cut.rest()
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": self._reason(),
        }
        return self._head | {"object": "chat.completion", "choices": [choice], "usage": usage(self.job.run)}

    async def chunks(self, with_usage: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer while it is made: a role, a chunk for each pass with text, the reason of its
        end, and then the usage if it is asked for.

        Raises:
            Refusal: if the server ended before.
        """
        more = {"usage": None} if with_usage else {}
        yield self._chunk({"role": "assistant", "content": ""}) | more
        async for step in self.job:
            if text := self._cut.add(step.text):
                yield self._chunk({"content": text}) | more
        reason = self._reason()
        if text := self._cut.rest():
            yield self._chunk({"content": text}) | more
        yield self._chunk({}, reason) | more
        if with_usage:
            yield self._chunk({}) | {"choices": [], "usage": usage(self.job.run)}

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        return self._head | {"object": "chat.completion.chunk", "choices": [choice]}

    def _reason(self) -> str:
        if self.job.run.stop == "stopped":
            raise Refusal(503, "The server ended before the answer did.")
        return "length" if self.job.run.stop == "length" else "stop"


def usage(run: Run) -> dict[str, int | float]:
    """Return what an answer took. The end token is counted, and so is a stop string."""
    return {
        "prompt_tokens": run.settings.prompt_tokens,
        "completion_tokens": run.tokens,
        "total_tokens": run.settings.prompt_tokens + run.tokens,
        "forwards": run.forwards,
        "tokens_per_forward": round(run.tokens_per_forward, 3),
    }
