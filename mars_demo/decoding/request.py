"""Decoding requests, validated once and passed as one object."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

from mars_demo.core import fields as types
from mars_demo.core.acceptance import TAU, Acceptance, Tau
from mars_demo.core.fields import parameter
from mars_demo.core.grammar import Grammar
from mars_demo.core.limits import NEW_TOKENS
from mars_demo.core.modes import LONGEST_NGRAM_DRAFT, MODES, Mode
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Request:
    """The decoding settings of an answer.

    mode: one of `modes.MODES`; None for the checkpoint's default.
    tau: the threshold of `acceptance`, a number or a callable that is read again at every forward. At 1
        every forward accepts one token. In block diffusion it applies to each mask of the block, in
        speculative decoding to the masks after the drafts. Modes without τ ignore it.
    criterion: the scoring of slots, one of `acceptance.CRITERIA`.
    window: slots per forward; None for the mode's default. In `lossless`, `jacobi` and `speculative` a
        forward verifies up to window - 1 drafts. In block diffusion it is the block size.
    max_new_tokens: the length at which an answer is truncated.
    stop_strings: an answer ends with the first token that completes one of these strings, or the first
        special token with such a name. The string stays in the text.
    raw: whether to use the prompt without the chat template; always True if the tokenizer has no template.
    linear: in `lossless`, whether to draft only if all drafts are accepted, for fewer positions and fewer
        accepted tokens. None for the faster choice on the device: positions cost time on a CPU, but hardly
        on a GPU.
    ngram_tokens: in `lossless`, the most tokens of an n-gram draft, independent of the window; 0 for none.
    draft: the draft model of `speculative`, an AR or MARS model with the same tokenizer.
    sampling: the sampling settings; None for greedy decoding. With the same seed, lossless modes sample the
        same answer as `ar`.
    adaptive: whether `mars` and `lossless`, without a `window`, choose the masks of every forward, by the
        checkpoint's measured costs and the answer's acceptance. The `window` is then the largest.

    grammar: the shape of the answer; None for any text. Scores are then among the allowed tokens.

    Raises:
        ValueError: if a value is out of range.
    """

    mode: str | None = parameter(None, types.Mode, "decoding mode; default: the checkpoint's best")
    tau: Tau = parameter(TAU, types.Share, "accept slots while score ≥ τ; 1: one token per forward")
    criterion: str = parameter(
        "probability",
        types.Criterion,
        "a token's score: probability, entropy of the distribution, or margin over the next best",
    )
    window: int | None = parameter(None, types.Slots, "slots per forward; default: the mode's")
    max_new_tokens: int = parameter(NEW_TOKENS, types.Slots, "longer answers are truncated")
    stop_strings: tuple[str, ...] = ()
    raw: bool = False
    linear: bool | None = parameter(
        None, bool, "draft in lossless only if all drafts are accepted; default: on a CPU"
    )
    ngram_tokens: int = LONGEST_NGRAM_DRAFT
    draft: Checkpoint | None = None
    sampling: Sampling | None = None
    adaptive: bool = False
    grammar: Grammar | None = None

    def __post_init__(self):
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"Unknown mode {self.mode!r}. Choose from {', '.join(MODES)}.")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}.")
        if "" in self.stop_strings:
            raise ValueError("A stop string is empty; every answer would end immediately.")
        if not 0 <= self.ngram_tokens <= LONGEST_NGRAM_DRAFT:
            raise ValueError(f"ngram_tokens must be 0 to {LONGEST_NGRAM_DRAFT}, not {self.ngram_tokens}.")
        Acceptance(self.criterion, self.tau)

    @property
    def rules(self) -> Mode:
        """Return the mode's entry in the table of modes."""
        return MODES[self.mode]

    @cached_property
    def acceptance(self) -> Acceptance:
        """Return the acceptance rule; in modes without τ it scores all slots and accepts one."""
        return Acceptance(self.criterion, self.tau if self.rules.uses_tau else None)

    def fitted(self, checkpoint: Checkpoint) -> Request:
        """Return a copy with all defaults that depend on the checkpoint filled in.

        Raises:
            ValueError: if the checkpoint does not support the request.
        """
        # 1. The mode decides which windows are possible: without one, the checkpoint's first mode.
        request = replace(self, mode=self.mode or checkpoint.modes[0])
        request._check_mode(checkpoint)
        largest = request.rules.largest_window(checkpoint.block_size)
        window = self.window or request.rules.default_window or largest
        if self.window is not None and not 1 <= self.window <= largest:
            allowed = "1" if largest == 1 else f"1 to {largest}"
            raise ValueError(
                f"A window of {self.window} slots does not fit mode {request.mode} of {checkpoint.name}; "
                f"it allows {allowed}."
            )
        # 2. Groups save forwards and cost positions, which are cheap on a GPU only.
        linear = checkpoint.device.type == "cpu" if self.linear is None else self.linear
        # 3. A given window is fixed; otherwise it adapts where forwards have been timed.
        adaptive = self.adaptive and self.window is None and request.rules.paced and bool(checkpoint.costs)
        return replace(request, window=window, linear=linear, adaptive=adaptive)

    def _check_mode(self, checkpoint: Checkpoint) -> None:
        if self.mode not in checkpoint.modes:
            raise ValueError(
                f"{checkpoint.name} was trained for {checkpoint.objective} and cannot run mode "
                f"{self.mode}. Choose from {', '.join(checkpoint.modes)}, or another checkpoint."
            )
        if self.grammar and not self.rules.causal:
            raise ValueError(f"Mode {self.mode} fills gaps in any order, so it cannot follow a grammar.")
        if not self.rules.needs_draft:
            return
        draft = self.draft
        if draft is None:
            raise ValueError(f"Mode {self.mode} needs a second, smaller checkpoint as the draft model.")
        if "ar" not in draft.modes:
            raise ValueError(f"{draft.name} was trained for {draft.objective} and cannot draft.")
        if draft.tokenizer.get_vocab() != checkpoint.tokenizer.get_vocab():
            raise ValueError(f"{draft.name} cannot draft for {checkpoint.name}: their tokenizers differ.")


# What users set; the options of commands and the fields of HTTP requests are made from it.
PARAMETERS = {option.name: option for option in (*fields(Request), *fields(Sampling)) if option.metadata}
