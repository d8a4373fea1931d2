"""The body of a chat request over HTTP: OpenAI's fields, and those of a decoding request."""

import secrets
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field
from pydantic_core import from_json

from mars_demo.core import fields as types
from mars_demo.core.acceptance import TAU
from mars_demo.core.limits import LIMITS, refuse_long
from mars_demo.core.messages import Message
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.serving.answer_shape import grammar_of

SAMPLING = {field.name for field in fields(Sampling)}


def _text(content: Any) -> Any:
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, dict) else None for part in content]
        return "".join(parts) if all(isinstance(part, str) for part in parts) else content
    return content


class ChatMessage(BaseModel):
    """A chat message; other fields, such as `name`, are ignored."""

    role: str
    content: Annotated[str, BeforeValidator(_text)]


class ChatBody(BaseModel, **types.STRICT):
    """A chat request. Without `temperature`, `top_p` and `top_k`, decoding is greedy."""

    model: types.Name
    messages: list[ChatMessage]
    stream: bool = False
    stream_options: dict[str, Any] = {}
    max_tokens: types.NewTokens | None = None
    max_completion_tokens: types.NewTokens | None = None
    stop: Annotated[
        list[str], Field(max_length=4), BeforeValidator(lambda stop: [stop] if type(stop) is str else stop)
    ] = []
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    n: Literal[1] = 1
    user: Any = None
    mode: types.Mode | None = None
    tau: types.Share = TAU
    criterion: types.Criterion = Request.criterion
    window: types.Slots | None = None
    temperature: types.Temperature | None = None
    top_p: types.TopP | None = None
    top_k: types.TopK | None = None
    seed: types.Seed | None = None

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Parse and validate a request body. Messages and grammars are checked where they are decoded.

        Raises:
            ValueError: if it is not a chat request, or exceeds `LIMITS`.
        """
        try:
            values = from_json(raw)
        except ValueError as error:
            raise ValueError(f"The body is not JSON: {error}.") from None
        if not isinstance(values, dict):
            raise ValueError("The body must be a JSON object.")
        # Clients send unsupported fields that ask for nothing, such as `"tools": []`.
        known = cls.model_fields
        given = {key: value for key, value in values.items() if value or key in known and value is not None}
        body = types.validated(cls, given)
        refuse_long(*(message.content for message in body.messages))
        return body

    @property
    def conversation(self) -> list[Message]:
        """Return the messages for the model."""
        return [message.model_dump() for message in self.messages]

    @property
    def request(self) -> Request:
        """Return the decoding settings; a `ValueError` says which shape of an answer is not valid."""
        sampling = self.model_dump(include=SAMPLING, exclude_none=True)
        if sampling.keys() - {"seed"}:
            sampling = {"temperature": 1.0, "seed": secrets.randbits(32)} | sampling
        return Request(
            self.mode,
            self.tau,
            self.criterion,
            self.window,
            max_new_tokens=self.max_completion_tokens or self.max_tokens or LIMITS.answer,
            stop_strings=tuple(self.stop),
            sampling=Sampling.at(**sampling) if "temperature" in sampling else None,
            grammar=grammar_of(self.response_format, self.structured_outputs),
        )
