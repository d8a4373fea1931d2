"""Where the data of this project are: checkpoints, recorded runs, lessons, prompts and results."""

import json
from pathlib import Path
from typing import Any

ASSETS = Path(__file__).resolve().parent.parent / "assets"


def read_json(*parts: str) -> Any:
    """The content of a JSON file below `ASSETS`."""
    return json.loads(ASSETS.joinpath(*parts).read_text(encoding="utf-8"))
