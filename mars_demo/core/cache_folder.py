"""The user's cache folder, for files that are expensive to make again."""

import os
from pathlib import Path

VARIABLE = "MARS_DEMO_CACHE"  # the folder; if it is empty, nothing is kept


def cache_folder(name: str) -> Path | None:
    """Return the cache folder of that name; None if nothing is kept."""
    if (named := os.environ.get(VARIABLE)) is not None:
        return Path(named) / name if named else None
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "mars-demo" / name
