"""The generation settings of an answer, with the same defaults on the page and in the HTTP API."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from mars_demo.core import fields
from mars_demo.core.acceptance import Tau
from mars_demo.core.grammar import KINDS, LONGEST, Grammar
from mars_demo.core.limits import LIMITS
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Settings
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling

NONE, COMPACT = "none", "compact"  # shapes besides the kinds of grammars: any text, and compact JSON


class Generation(BaseModel, **fields.STRICT, frozen=True):
    """The validated settings that all sides of a race share, besides τ.

    window: slots per forward; None to choose them for each forward, by the costs of forwards.
    temperature: 0 for greedy decoding.
    shape: the shape of the answer, of which `grammar` is the text.
    """

    criterion: fields.Criterion = Request.criterion
    window: fields.Slots | None = Request.window
    max_new_tokens: fields.NewTokens = Request.max_new_tokens
    temperature: fields.Temperature = 0.0
    top_p: fields.TopP = Sampling.top_p
    seed: fields.Seed = Sampling.seed
    shape: Literal[NONE, COMPACT, *KINDS] = NONE
    grammar: Annotated[str, Field(max_length=LONGEST)] = ""

    @property
    def shaped(self) -> Grammar | None:
        """Return the grammar of the answer, if any."""
        kind = "json" if self.shape == COMPACT else self.shape
        return None if kind == NONE else Grammar(kind, self.grammar, self.shape == COMPACT)

    def request(self, mode: str, tau: Tau) -> Request:
        """Return the request of an answer."""
        return Request(
            mode,
            tau,
            self.criterion,
            window=self.window,
            max_new_tokens=self.max_new_tokens,
            sampling=Sampling.at(self.temperature, top_p=self.top_p, seed=self.seed),
            grammar=self.shaped,
        )

    def narrowed(self, mode: str, tau: Tau, block_size: int | None) -> Request:
        """Return the request with at most the largest window of its mode, so that one window suits all."""
        request = self.request(mode, tau)
        largest = request.rules.largest_window(block_size)
        return replace(request, window=request.window and min(request.window, largest))

    def shown(self) -> dict[str, Any]:
        """Return the values of the page's controls by name; a window of 0 is None."""
        return self.model_dump() | {"window": self.window or 0}


GREEDY = Generation()
DEFAULTS = GREEDY.shown()


def of_controls(values: Any) -> Generation:
    """Return the values of the page's controls, in the order of `DEFAULTS`; an empty one has its default.

    Raises:
        ValueError: with a sentence about the first invalid value.
    """
    given = {name: value for name, value in zip(DEFAULTS, values, strict=True) if value is not None}
    return fields.validated(Generation, given | {"window": given.get("window") or None})


def in_query(name: str, text: str) -> Any:
    """Return the value of a setting in a URL.

    Raises:
        ValueError: if it is invalid.
    """
    return getattr(Generation.model_validate_strings({name: text}, strict=False), name)


def of_record(settings: Settings) -> Generation:
    """Return the settings of a recorded run; a window that is its mode's default counts as not chosen.

    Raises:
        ValueError: if the page does not allow one of them.
    """
    mode, sampling = MODES[settings.mode], settings.sampling or {}
    default = mode.default_window or mode.largest_window(settings.block_size)
    values = {
        "criterion": settings.criterion,
        "window": None if settings.costs or settings.window == default else settings.window,
        "max_new_tokens": min(settings.max_new_tokens, LIMITS.answer),
    }
    values |= {name: sampling[name] for name in ("temperature", "top_p", "seed") if name in sampling}
    return fields.validated(Generation, values | of_grammar(settings.grammar))


def of_grammar(grammar: Grammar | None) -> dict[str, str]:
    """Return the settings of the shape of an answer; none of any text."""
    if grammar is None:
        return {}
    return {"shape": COMPACT if grammar.compact else grammar.kind, "grammar": grammar.text}
