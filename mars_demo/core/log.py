"""The log of a server: one printable line per error, since its message may repeat a visitor's text."""

import logging
import traceback
from pathlib import Path

LONGEST = 600  # characters of a line, so that nobody can flood the log


def log(error: Exception, doing: str) -> None:
    """Log the error of a request in one line, escaped and truncated.

    doing: what failed, such as a function or a path; it may be a visitor's text, too.
    """
    frames = traceback.extract_tb(error.__traceback__)
    at = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    line = ascii(f"{doing}: {type(error).__name__}{at}: {error}")[1:-1]
    logging.getLogger("mars_demo").error("%s", line[:LONGEST])
