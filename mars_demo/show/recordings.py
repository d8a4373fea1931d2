"""Recorded runs, which the page shows before any model is loaded.

`assets/runs/index.json` lists the recordings; each has a JSONL file of run records next to it.
The page opens with the first recording of the default model.
`python -m mars_demo record runs` records them again.
"""

import json
from dataclasses import asdict
from typing import Any

from mars_demo.core.assets import ASSETS
from mars_demo.core.schedule import with_block_cache, with_ragged_cache
from mars_demo.core.trace import read_text

FOLDER = ASSETS / "runs"
BATCHED = ("bus", "table", "function", "letter", "story")  # runs that share a batch in pictures
CACHE_BLOCKS = (4, 256)  # from the paper's smallest to its largest


def index() -> list[dict[str, Any]]:
    """Return the recorded runs in display order: `id`, `title`, `note` and their settings."""
    return json.loads((FOLDER / "index.json").read_text("utf-8"))


def recording(id: str) -> str:
    """Return a recorded run as JSON lines: its title and note, then the record of each mode.

    Raises:
        ValueError: if there is no recording with that id.
    """
    entry = next((entry for entry in index() if entry["id"] == id), None)
    if entry is None:
        raise ValueError(f"Unknown recorded run {id!r}.")
    header = {"recording": id, "title": entry["title"], "note": entry["note"]}
    record = (FOLDER / f"{id}.jsonl").read_text("utf-8")
    return f"{json.dumps(header, ensure_ascii=False)}\n{record}"


def batched(cache_block: int) -> str:
    """Return two schedules of recorded runs as a batch, in JSON.

    The first one has the paper's block cache, the second one the per-sequence cache.
    """
    titles = {entry["id"]: entry["title"] for entry in index()}
    rows = [titles[id] for id in BATCHED]
    runs = [run.passes for id in BATCHED for run in read_text(recording(id)) if run.settings.mode == "mars"]
    schedules = with_block_cache(rows, runs, cache_block), with_ragged_cache(rows, runs)
    return json.dumps([asdict(schedule) for schedule in schedules])
