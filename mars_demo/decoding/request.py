"""What is asked of a decoder, validated once and passed whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mars_demo.decoding.acceptance import Acceptance, Tau
from mars_demo.modes import LONGEST_COPY, MODES, Mode

if TYPE_CHECKING:  # a request can be made without torch
    from mars_demo.decoding.costs import Costs
    from mars_demo.decoding.sampling import Sampling
    from mars_demo.models.checkpoint import Checkpoint


@dataclass(frozen=True)
class Branch:
    """The beginning of an answer that is given, not decoded: another answer up to some token, and what is
    to stand there instead."""

    ids: tuple[int, ...]
    of: str | None = None  # the `run` of the record that it leaves,
    at: int = 0  # and how many of its tokens it keeps


@dataclass(frozen=True)
class Request:
    """How a prompt is to be decoded.

    mode: one of `modes.MODES`; None for the checkpoint's best.
    tau: the threshold of `acceptance`, a number or a callable that is read again at every forward. At 1
        every forward accepts one token. In block diffusion it holds for each mask of the block, in
        speculative decoding for the masks after the drafts. Modes that have no τ ignore it.
    criterion: how slots are scored, one of `acceptance.CRITERIA`.
    window: slots per forward; None for the mode's default. In `lossless`, `jacobi` and `speculative` a
        forward verifies up to window - 1 drafts. In block diffusion it is the block size.
    max_new_tokens: where an answer without an end is cut.
    stop_strings: an answer ends with the first token that completes one of these, or that is called like
        one. The string stays in its text.
    raw: the prompt as it is, without the chat template; always so if the tokenizer has no template.
    linear: in `lossless`, draft only after a fully verified forward: fewer positions, fewer accepted
        tokens. None for what is faster on the device: positions cost time on a CPU, hardly on a GPU.
    copies: in `lossless`, the longest draft that is copied from the text, whatever the window; 0 for none.
    draft: the model that drafts in `speculative`; any AR or MARS model with the same tokenizer.
    sampling: draw tokens with it instead of taking the most probable ones, in any mode. The modes whose
        answer is that of `ar` then give the answer that `ar` draws with the same seed.
    branch: how the answer begins; `max_new_tokens` counts these tokens too.
    costs: what forwards cost on this machine. Where no window is named, `mars` and `lossless` then choose
        for every forward how many drafts and masks it has, up to the largest window.

    Raises:
        ValueError: if one of these is out of its range.
    """

    mode: str | None = None
    tau: Tau = 0.95
    criterion: str = "probability"
    window: int | None = None
    max_new_tokens: int = 256
    stop_strings: tuple[str, ...] = ()
    raw: bool = False
    linear: bool | None = None
    copies: int = LONGEST_COPY
    draft: Checkpoint | None = None
    sampling: Sampling | None = None
    branch: Branch | None = None
    costs: Costs | None = None

    def __post_init__(self):
        if self.mode is not None and self.mode not in MODES:
            raise ValueError(f"Unknown mode {self.mode!r}. Choose from {', '.join(MODES)}.")
        if self.max_new_tokens < 1:
            raise ValueError(f"max_new_tokens must be at least 1, not {self.max_new_tokens}.")
        if "" in self.stop_strings:
            raise ValueError("A stop string is empty; every answer would end at once.")
        if not 0 <= self.copies <= LONGEST_COPY:
            raise ValueError(f"copies must be 0 to {LONGEST_COPY}, not {self.copies}.")
        Acceptance(self.criterion, self.tau)

    @property
    def rules(self) -> Mode:
        """Return what the table of modes says of its mode."""
        return MODES[self.mode]

    @cached_property
    def acceptance(self) -> Acceptance:
        """Return the rule of acceptance; in a mode without a τ it accepts one slot and only scores."""
        return Acceptance(self.criterion, self.tau if self.rules.uses_tau else None)

    def fitted(self, checkpoint: Checkpoint) -> Request:
        """Return the same request with everything that the checkpoint decides filled in.

        Raises:
            ValueError: if the checkpoint cannot do what is asked.
        """
        request = replace(self, mode=self.mode or checkpoint.modes[0])
        request._check_mode(checkpoint)
        largest = request.rules.largest_window(checkpoint.block_size)
        window = self.window or request.rules.default_window or largest
        if self.window is not None and not 1 <= self.window <= largest:
            allowed = "1" if largest == 1 else f"1 to {largest}"
            raise ValueError(
                f"A window of {self.window} slots does not fit mode {request.mode} of {checkpoint.name}: "
                f"allowed is {allowed}."
            )
        costs = self.costs if self.window is None and request.rules.paced else None
        linear = self.linear
        if linear is None and costs is None:
            linear = checkpoint.device.type == "cpu"
        return replace(request, window=window, linear=linear, costs=costs)

    def _check_mode(self, checkpoint: Checkpoint) -> None:
        if self.mode not in checkpoint.modes:
            raise ValueError(
                f"{checkpoint.name} was trained for {checkpoint.objective} and cannot run mode "
                f"{self.mode}. Choose from {', '.join(checkpoint.modes)}, or another checkpoint."
            )
        if not self.rules.needs_draft:
            return
        draft = self.draft
        if draft is None:
            raise ValueError(f"Mode {self.mode} needs a second, smaller checkpoint that drafts.")
        if "ar" not in draft.modes:
            raise ValueError(f"{draft.name} was trained for {draft.objective} and cannot draft.")
        if draft.tokenizer.get_vocab() != checkpoint.tokenizer.get_vocab():
            raise ValueError(
                f"{draft.name} cannot draft for {checkpoint.name}: their tokenizers differ, and a draft "
                "must be made of the same tokens."
            )
