"""A job's answer in OpenAI's format: whole, or streamed in a chunk per pass."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mars_demo.core.trace import Pass, Run
from mars_demo.serving.drafts import Drafts
from mars_demo.serving.refusal import Refusal
from mars_demo.serving.server import Job


class StopFilter:
    """A streamed text that ends before the first stop string."""

    def __init__(self, strings: Sequence[str]):
        self._strings, self._held, self._ended = strings, "", False
        self._most = max(map(len, strings), default=1) - 1  # characters of an unfinished stop string

    def add(self, text: str) -> str:
        """Add text and return what can be shown; an ending that may begin a stop string waits."""
        if self._ended:
            return ""
        self._held += text
        starts = [start for string in self._strings if (start := self._held.find(string)) >= 0]
        self._ended = bool(starts)
        certain = min(starts, default=max(0, len(self._held) - self._most))
        shown, self._held = self._held[:certain], self._held[certain:]
        return shown

    def rest(self) -> str:
        """Return the text held back, once no stop string can follow."""
        return "" if self._ended else self._held


class Completion:
    """A job's answer as OpenAI's chat completion."""

    def __init__(self, job: Job, model: str, stop_strings: Sequence[str]):
        self.job, self._filter = job, StopFilter(stop_strings)
        self._head = {"id": f"chatcmpl-{job.run.settings.run}", "created": int(time.time()), "model": model}

    async def whole(self) -> dict[str, Any]:
        """Return the answer once it is finished.

        Raises:
            Refusal: if the server stopped first.
        """
        text = "".join([self._filter.add(step.text) async for step in self.job]) + self._filter.rest()
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text, "refusal": None},
            "logprobs": None,
            "finish_reason": self._reason(),
        }
        return self._head | {"object": "chat.completion", "choices": [choice]} | figures(self.job.run)

    async def chunks(self, with_usage: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer as it is decoded.

        The role comes first, then a chunk for each pass with text, the finish reason, and, with
        `with_usage`, the usage and the timings. The `tokens` of a chunk are those accepted since the last
        one; the texts of all, joined, are the answer, up to the end of a stop string.

        Raises:
            Refusal: if the server stopped first.
        """
        more = {"usage": None} if with_usage else {}
        yield self._chunk({"role": "assistant", "content": ""}) | more
        tokens = []
        async for step in self.job:
            tokens += placed(step)
            if text := self._filter.add(step.text):
                yield self._chunk({"content": text}, tokens) | more
                tokens = []
        reason = self._reason()
        if text := self._filter.rest():
            yield self._chunk({"content": text}) | more
        yield self._chunk({}, tokens, reason) | more
        if with_usage:
            yield self._chunk({}) | {"choices": []} | figures(self.job.run)

    def _chunk(
        self, delta: dict[str, str], tokens: Sequence[dict] = (), reason: str | None = None
    ) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason, "tokens": tokens}
        return self._head | {"object": "chat.completion.chunk", "choices": [choice]}

    def _reason(self) -> str:
        if self.job.run.stop == "stopped":
            raise Refusal(503, "The server stopped before the answer was finished.")
        return "length" if self.job.run.stop == "length" else "stop"


def placed(step: Pass) -> list[dict[str, Any]]:
    """Return the accepted tokens of a pass, each with its forward and its slot, both counted from 1."""
    accepted = enumerate(step.slots[: step.accepted], start=1)
    return [{"text": slot.text, "forward": step.number, "slot": number} for number, slot in accepted]


def figures(run: Run) -> dict[str, dict[str, Any]]:
    """Return OpenAI's usage of an answer with this project's counts, and llama.cpp's timings.

    The end token and a stop string count. Unlike OpenAI's, the rejected tokens are not part of the
    completion tokens. `predicted_ms` is the time of all forwards of the answer: the one that reads the
    prompt also predicts tokens, so there is no `prompt_ms`.
    """
    drafts, settings = Drafts.of(run), run.settings
    usage = {
        "prompt_tokens": settings.prompt_tokens,
        "completion_tokens": run.tokens,
        "total_tokens": settings.prompt_tokens + run.tokens,
        "completion_tokens_details": {
            "accepted_prediction_tokens": drafts.accepted,
            "rejected_prediction_tokens": drafts.rejected,
        },
        "forwards": run.forwards,
        "tokens_per_forward": round(run.tokens_per_forward, 3),
        "acceptance_per_position": [round(rate, 3) for rate in drafts.acceptance],
    }
    timings = {
        "cache_n": settings.cached_tokens,
        "prompt_n": settings.prompt_tokens - settings.cached_tokens,
        "predicted_n": run.tokens,
        "predicted_ms": round(1000 * run.seconds, 3),
        "predicted_per_token_ms": round(1000 * run.seconds / run.tokens, 3),
        "predicted_per_second": round(run.tokens / run.seconds, 3),
        "draft_n": drafts.tokens,
        "draft_n_accepted": drafts.accepted,
    }
    return {"usage": usage, "timings": timings}
