"""The settings of the Mask tab: values and ranges of its controls, from the URL or from a forward."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple, Self, get_type_hints

import gradio as gr
from pydantic import Field, TypeAdapter

from mars_demo.core.limits import refuse_long
from mars_demo.core.names import TINY
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.masks import KINDS, Mask, Sentence, draw_mask

SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."
LEAST_TOKENS, MOST_TOKENS = 4, 128
MOST_MASKS = MOST_DRAFTS = 16
Number = Annotated[int, Field(ge=0, lt=10_000)]


class MaskSettings(NamedTuple):
    """The values of the controls. kind: of `masks.KINDS`. prompt: the tokens of the question."""

    sentence: str = SENTENCE
    model: str = TINY
    kind: Literal[tuple(KINDS)] = "mars"
    length: Annotated[int, Field(ge=LEAST_TOKENS, le=MOST_TOKENS)] = 20
    prompt: Number = 8
    new: Number = 2
    block_size: Number = 4
    random_phase: bool = False

    @classmethod
    def of_forward(cls, mask: Mask, model: str) -> Self:
        """Return the settings that describe the mask of a forward of decoding.

        They are inexact if the tokenizer splits the text into other tokens than the model wrote.
        """
        drawn = mask.sentence
        return cls(
            sentence=MODELS.load(model).tokenizer.decode(drawn.ids),
            model=model,
            kind=mask.kind,
            length=_between(len(drawn.ids), LEAST_TOKENS, MOST_TOKENS),
            prompt=drawn.prompt,
            new=drawn.new,
            block_size=drawn.block_size,
        )

    def with_query(self, query: Mapping[str, str]) -> Self:
        """Return the settings with the valid ones of the URL."""
        values = {}
        for name, kind in get_type_hints(MaskSettings, include_extras=True).items():
            with suppress(KeyError, ValueError):
                values[name] = TypeAdapter(kind).validate_strings(query[f"mask_{name}"])
        if values.get("model") not in MODELS.names():
            values.pop("model", None)
        return self._replace(**values)

    def ids(self) -> list[int]:
        """Return the first tokens of the sentence.

        Special tokens are included, since a forward from the stage contains those of the chat template.

        Raises:
            ValueError: if there are fewer than four, or the sentence is longer than a prompt may be.
        """
        refuse_long(self.sentence or "")
        tokenizer = MODELS.load(self.model).tokenizer
        ids = tokenizer(self.sentence or "", add_special_tokens=False)["input_ids"]
        ids = ids[: _between(int(self.length), 0, MOST_TOKENS)]
        if len(ids) < LEAST_TOKENS:
            raise ValueError("The sentence is too short for a picture; write at least four tokens.")
        return ids

    def mask(self) -> Mask:
        """Return the mask of the sentence, with its size as the caption.

        Raises:
            ValueError: as `ids`.
        """
        checkpoint, ids = MODELS.load(self.model), self.ids()
        prompt = min(int(self.prompt), len(ids) - 2)
        mask = draw_mask(
            self.kind,
            Sentence(
                ids,
                checkpoint.tokenizer.pad_token_id if checkpoint.mask_id is None else checkpoint.mask_id,
                checkpoint.token_name,
                prompt=prompt,
                new=int(self.new),
                block_size=int(self.block_size),
                seed=len(ids) if self.random_phase else None,
            ),
        )
        positions = len(mask.rows)
        if not KINDS[self.kind].streams:
            cached = len(mask.columns) - positions
            caption = f"{positions} positions computed in one forward, {cached} in the cache."
            return replace(mask, caption=caption)
        caption = f"{len(ids)} clean and {positions - len(ids)} noisy positions."
        if self.kind == "mars":
            caption += (
                f" With L = {len(ids)} tokens, R = {len(ids) - prompt} of them the answer, that is about "
                f"L + R; the paper copies the whole text and computes 2L = {2 * len(ids)} positions."
            )
        return replace(mask, caption=caption)

    def ranges(self) -> dict[str, dict]:
        """Return updates of the controls whose range depends on other controls."""
        try:
            tokens = len(self.ids())
        except ValueError:  # the sentence is too short, which the picture says
            tokens = LEAST_TOKENS
        training, window, ar = bool(KINDS[self.kind].streams), self.kind == "window", self.kind == "ar"
        masks = "Block size B" if training else "Masks" if window else "Masks per group"
        new = "New tokens before the masks" if window else "Drafts"
        most = tokens if window else min(MOST_DRAFTS, tokens - 1)

        def slider(value: float, least: int, most: int, **more: Any) -> dict:
            return {"minimum": least, "maximum": most, "value": _between(value, least, most)} | more

        return {
            "prompt": slider(self.prompt, 1, tokens - 2, interactive=training),
            "new": slider(self.new, int(window), most, label=new, interactive=not training),
            "block_size": slider(
                self.block_size, int(training), MOST_MASKS, label=masks, interactive=not ar
            ),
            "random_phase": {"interactive": self.kind in ("mars", "block-diffusion")},
        }

    def fitted(self) -> Self:
        """Return the settings within their ranges."""
        ranges = self.ranges()
        return self._replace(**{name: new["value"] for name, new in ranges.items() if "value" in new})

    def updates(self) -> list[dict]:
        """Return updates of all controls: their values, ranges and choices."""
        more = self.ranges() | {
            "model": {"choices": list(dict.fromkeys([*MODELS.names(), self.model]))},
            "kind": {"choices": [(kind.title, name) for name, kind in KINDS.items()]},
        }
        return [
            gr.update(**{"value": value, **more.get(name, {})}) for name, value in self._asdict().items()
        ]


SETTINGS = MaskSettings._fields
DEPENDENT = ("prompt", "new", "block_size", "random_phase")  # the keys of `ranges`


class Sent(NamedTuple):
    """A forward from the stage, and the settings that describe it."""

    settings: MaskSettings
    line: str


def _between(value: float, least: int, most: int) -> float:
    return min(max(value, least), most)
