"""The body of a chat request over HTTP: the supported OpenAI fields, and fields of this project."""

import reprlib
import secrets
from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, create_model
from pydantic_core import from_json

from mars_demo.core import fields as types
from mars_demo.core.acceptance import Tau
from mars_demo.core.limits import LIMITS
from mars_demo.core.messages import Message
from mars_demo.decoding.request import PARAMETERS, Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.serving.refusal import Refusal

# Unsupported fields that clients send, each with the one value that changes nothing.
NEUTRAL = {
    "n": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "logit_bias": {},
    "logprobs": False,
    "top_logprobs": 0,
    "tools": [],
    "response_format": {"type": "text"},
}
# Fields that describe the client and do not change the answer.
IGNORED = """user metadata store service_tier safety_identifier prompt_cache_key tool_choice
    parallel_tool_calls""".split()
StopString = Annotated[str, Field(min_length=1)]


def _text(content: Any) -> str:
    """Return a message's content, a text or a list of text parts, as one text."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    texts = [
        part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        for part in parts
    ]
    if not all(isinstance(text, str) for text in texts):
        raise ValueError("must be a text or a list of parts of type text")
    return "".join(texts)


def _strings(stop: Any) -> Any:
    """Return stop strings as a list, also a single one."""
    return [stop] if isinstance(stop, str) else stop


class ChatMessage(BaseModel):
    """A chat message; other fields, such as `name`, are ignored."""

    model_config = ConfigDict(strict=True)
    role: Literal["system", "developer", "user", "assistant"]
    content: Annotated[str, BeforeValidator(_text)]


class StreamOptions(BaseModel):
    """The options of a streamed answer."""

    model_config = ConfigDict(strict=True)
    include_usage: bool = False


DECODING = ("mode", "tau", "criterion", "window")  # the fields of a `Request`
SAMPLING = tuple(field.name for field in fields(Sampling))
_OPTIONAL = {name: (PARAMETERS[name].metadata["kind"] | None, None) for name in (*DECODING, *SAMPLING)}


class ChatBody(create_model("Parameters", __config__=types.STRICT, **_OPTIONAL)):
    """A chat request, with the parameters of a `Request` and of `Sampling` among its fields.

    Without `tau`, the server's applies. Without `temperature`, `top_p` and `top_k`, decoding is greedy.
    """

    model: types.Name
    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    max_tokens: types.NewTokens | None = None
    max_completion_tokens: types.NewTokens | None = None
    stop: Annotated[list[StopString], Field(max_length=4), BeforeValidator(_strings)] = []

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Parse and validate a request body.

        Raises:
            Refusal: if it is not a valid chat request, or exceeds `LIMITS`.
        """
        try:
            values = from_json(raw, allow_inf_nan=False)
        except ValueError as error:
            raise Refusal(400, f"The body is not JSON: {error}.") from None
        if not isinstance(values, dict):
            raise Refusal(400, "The body must be a JSON object.")
        values = {name: value for name, value in values.items() if value is not None}
        for name, neutral in NEUTRAL.items():
            if (value := values.pop(name, neutral)) != neutral:
                raise Refusal(400, f"{name} can only be {neutral!r} here, not {reprlib.repr(value)}.", name)
        values = {name: value for name, value in values.items() if name not in IGNORED}
        try:
            body = cls.model_validate(values)
        except ValidationError as error:
            place, sentence = types.problem(error)
            raise Refusal(400, f"{sentence}.", place) from None
        body._check_length()
        return body

    def _check_length(self) -> None:
        length = sum(len(message.content) for message in self.messages)
        if length > LIMITS.prompt:
            sentence = f"The messages have {length} characters; at most {LIMITS.prompt} are allowed."
            raise Refusal(400, sentence, "messages", "context_length_exceeded")

    @property
    def conversation(self) -> list[Message]:
        """Return the messages for the model; the role "developer" becomes "system"."""
        pairs = [(m.role.replace("developer", "system"), m.content) for m in self.messages]
        return [{"role": role, "content": content} for role, content in pairs]

    def request(self, tau: Tau) -> Request:
        """Return the decoding settings, with `tau` as the threshold of a body that names none."""
        return Request(
            **{"tau": tau} | self._given(DECODING),
            max_new_tokens=self.max_completion_tokens or self.max_tokens or LIMITS.answer,
            stop_strings=tuple(self.stop),
            sampling=self._sampling,
        )

    @property
    def _sampling(self) -> Sampling | None:
        given = self._given(SAMPLING)
        if not given.keys() - {"seed"}:
            return None
        return Sampling.at(**{"temperature": Sampling.temperature, "seed": secrets.randbits(32)} | given)

    def _given(self, names: Iterable[str]) -> dict[str, Any]:
        return self.model_dump(include=set(names), exclude_none=True)
