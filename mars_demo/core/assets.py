"""The data folder: checkpoints, recorded runs, lessons, prompts and results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parents[2] / "assets"


def read_json(*parts: str, object_hook: Callable[[dict], Any] | None = None) -> Any:
    """Return the content of a JSON file below `ASSETS`."""
    return json.loads(ASSETS.joinpath(*parts).read_text(encoding="utf-8"), object_hook=object_hook)
