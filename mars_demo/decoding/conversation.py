"""A conversation: each prompt is answered after what has been said."""

from mars_demo.decoding.decode import decode
from mars_demo.decoding.engine import TextCache
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.models.chat import render
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.messages import Message, user


class Conversation:
    """Turns with one model. What the next prompt shares with the text so far is not computed again.

    request: how every answer is decoded; may be set between turns.
    system: what the model is told before the first turn, if anything.

    Raises:
        ValueError: if the checkpoint has no chat template, or one that knows no system message.
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
        """Return what has been said. A turn whose answer has no text is left out."""
        answered = self._run and self._run.text.strip()
        return self._run.messages if answered else self._before

    def ask(self, prompt: str) -> Run:
        """Begin the next answer. However far it is iterated, the turn after it continues from there.

        Raises:
            ValueError: as `decode`; the conversation is then as it was.
        """
        if self._run:
            self._run.close()
        before = self.messages
        self._run = decode(self.checkpoint, prompt, self.request, messages=before, cache=self._cache)
        self._before = before
        return self._run
