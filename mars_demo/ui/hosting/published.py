"""The paper's published checkpoints, which the page offers on one's own machine.

Nothing is downloaded before the visitor presses Download. What has been downloaded is in the hub client's
cache; it is listed and loaded like any other model, also after a restart.
"""

from __future__ import annotations

import torch
from huggingface_hub import constants

from mars_demo.models import hub, memory
from mars_demo.models.facts import licence_in
from mars_demo.models.pool import Member

OWNER = "Xalphinions"
# By size: the parameters of the model and of its largest tensor (those of Qwen2.5), and its checkpoints.
SHAPES = {"0.5B": (494_032_768, 136_134_656), "7B": (7_615_616_512, 544_997_376)}
KINDS = {
    "0.5B": ("blk8", "blk4", "blk16", "blk8-no-sft", "blk4-no-sft", "blk16-no-sft", "AR-SFT", "BD3LM-blk4"),
    "7B": ("blk8", "blk4", "blk16", "AR-SFT"),
}
NAMES = [f"{OWNER}/MARS-Qwen2.5-{size}-{kind}" for size, kinds in KINDS.items() for kind in kinds]
ABOUT = "A checkpoint by the paper's authors. It is downloaded only if you press Download."
STORED = 2  # bytes of a parameter in the files, until the hub tells their size


class Published(Member):
    """A published checkpoint: offered, then downloaded on request, then a model like any other.

    is_here: whether it has been downloaded. Before, the phase is `offered`, `fetching` or `failed`.
    needed: bytes of memory. size: bytes of its files. licence: as its card on the hub names it.
    """

    def __init__(self, name: str, device: str, dtype: torch.dtype):
        super().__init__(name, name)
        parameters, largest = SHAPES["7B" if "-7B-" in name else "0.5B"]
        # As `memory.needed`: while the largest tensor is converted, it exists twice, at most in float32.
        self.device, self.needed = device, parameters * dtype.itemsize + largest * 4
        self.size, self.licence = parameters * STORED, "unknown"
        self.is_here, self.is_cancelled = hub.cached(name) is not None, False

    @property
    def label(self) -> str:
        """Return its entry in the model list."""
        short = self.name.removeprefix(f"{OWNER}/")
        return f"{short} (paper)" if self.is_here else f"{short} (paper, {_short(self.size)}, to download)"

    @property
    def fits(self) -> bool:
        return self.needed <= memory.available(self.device)

    def terms(self) -> list[tuple[str, str]]:
        """Return (label, text) pairs of what a download brings and needs."""
        free = memory.available(self.device)
        return [
            ("from", f"{constants.ENDPOINT}/{self.name}"),
            ("size", _short(self.size)),
            ("licence", self.licence),
            ("memory", f"{_short(self.needed)} needed, {_short(free)} free on {self.device}"),
        ]

    def report(self, phase: str, done: int = 0, total: int = 0) -> None:
        """Record the progress of downloading and loading; end a download that was cancelled."""
        if phase == "fetching" and self.is_cancelled:
            raise hub.Cancelled
        self.is_here |= phase == "loading"
        super().report("offered" if phase == "waiting" and not self.is_here else phase, done, total)

    def ask(self) -> None:
        """Ask the hub for size and licence."""
        problem = None
        try:
            self.size, card = hub.offer(self.name)
            self.licence = licence_in(card) or "not stated on the hub"
        except ValueError as error:
            self.licence, problem = "unknown", str(error)
        if not self.fits:
            problem = f"There is not enough memory for {self.name} here."
        if self.phase != "fetching":
            self.problem = problem
            self.report("failed" if problem else "offered")


def _short(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size > 5e8 else hub.megabytes(size)
