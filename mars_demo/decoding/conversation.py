"""Conversations of several turns."""

from mars_demo.core.messages import Message, user
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import render
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.runtime.engine import TextCache


class Conversation:
    """A conversation with one model, which reuses the KV cache of the previous turns.

    request: the decoding request of every answer; may be changed between turns.
    system: the system message, if any.

    Raises:
        ValueError: if the checkpoint has no chat template, or the template rejects a system message.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        request: Request = Request(),  # noqa: B008
        system: str = "",
    ):
        self.checkpoint, self.request = checkpoint, request
        self._before = [{"role": "system", "content": system}] if system.strip() else []
        self._run: Run | None = None
        self._cache = TextCache()
        render(checkpoint.tokenizer, [*self._before, user("Hello")], reply=True)

    @property
    def messages(self) -> list[Message]:
        """Return the messages so far, without a last turn whose answer has no text."""
        answered = self._run and self._run.text.strip()
        return self._run.messages if answered else self._before

    def ask(self, prompt: str) -> Run:
        """Begin the next answer. A later turn continues from the part of it that was iterated.

        Raises:
            ValueError: as `decode`; the conversation is then unchanged.
        """
        if self._run:
            self._run.close()
        before = self.messages
        self._run = decode(self.checkpoint, prompt, self.request, messages=before, cache=self._cache)
        self._before = before
        return self._run
