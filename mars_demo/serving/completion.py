"""A run as OpenAI's chat completion: whole, or streamed in a chunk per pass."""

import time
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Any

from mars_demo.core.trace import Pass, Run


class Completion:
    """The answer of a run up to the first stop string, in OpenAI's format."""

    def __init__(self, run: Run, stop_strings: Sequence[str]):
        self.run, self._stops = run, stop_strings
        self._head = {
            "id": f"chatcmpl-{run.settings.run}",
            "created": int(time.time()),
            "model": run.settings.model,
        }

    def text(self) -> str:
        """Return the text that can be shown; before the run ends, an ending may begin a stop string."""
        text = self.run.text
        starts = [start for stop in self._stops if (start := text.find(stop)) >= 0]
        held = 0 if self.run.stop else max(map(len, self._stops), default=1) - 1
        return text[: min(starts, default=max(0, len(text) - held))]

    def whole(self) -> dict[str, Any]:
        """Return the answer of a finished run."""
        message = {"role": "assistant", "content": self.text(), "refusal": None}
        return self._object("chat.completion", {"message": message}, self._reason()) | self._usage()

    async def chunks(self, passes: AsyncIterable[Pass], with_usage: bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the answer as it is decoded.

        The role comes first, then a chunk for each pass with text, the finish reason, and on request the
        usage.
        """
        more = {"usage": None} if with_usage else {}
        yield self._chunk({"role": "assistant", "content": ""}) | more
        shown = 0
        async for _ in passes:
            if text := self.text()[shown:]:
                yield self._chunk({"content": text}) | more
                shown += len(text)
        yield self._chunk({}, self._reason()) | more
        if with_usage:
            yield self._chunk({}) | {"choices": []} | self._usage()

    def _chunk(self, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        return self._object("chat.completion.chunk", {"delta": delta}, reason)

    def _object(self, kind: str, content: dict[str, Any], reason: str | None) -> dict[str, Any]:
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
        return self._head | {"object": kind, "choices": [choice]}

    def _reason(self) -> str:
        return "length" if self.run.stop == "length" else "stop"

    def _usage(self) -> dict[str, Any]:
        """Return OpenAI's usage with this project's counts, and vLLM's metrics; all tokens count."""
        run, prompt = self.run, self.run.settings.prompt_tokens
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": run.tokens,
            "total_tokens": prompt + run.tokens,
            "forwards": run.forwards,
            "tokens_per_forward": round(run.tokens_per_forward, 3),
            "forced_tokens": run.sources["forced"],
        }
        return {"usage": usage, "metrics": {"speculative_decoding": acceptance(run)}}


def acceptance(run: Run) -> dict[str, Any]:
    """Return the acceptance of a run's drafts, in the names of vLLM.

    Drafts are the tokens of a forward that an AR forward would not predict: slots after the first, or
    verified guesses. A step is a forward with drafts. Forced tokens are neither.
    """
    steps = []
    for step in run.passes:
        slots = [slot.source != "forced" for slot in step.slots]
        drafts = sum(slots) - 1 if step.drafts is None else step.drafts
        steps.append((drafts, max(0, sum(slots[: step.accepted]) - 1)))
    steps = [(drafts, kept) for drafts, kept in steps if drafts > 0]
    drafts, kept = (sum(counts) for counts in zip((0, 0), *steps))
    most = max([run.settings.window - 1, *[drafts for drafts, _ in steps]])
    lengths = Counter(kept for _, kept in steps)
    return {
        "mean_acceptance_length": 1 + kept / max(1, len(steps)),
        "draft_acceptance_rate": kept / max(1, drafts),
        "acceptance_histogram": [lengths[length] for length in range(most + 1)],
        "num_spec_steps": len(steps),
        "num_accepted_draft_tokens": kept,
        "num_draft_tokens": drafts,
        "num_spec_tokens": most,
    }
