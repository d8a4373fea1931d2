"""A record as one HTML file that replays it without a server."""

import textwrap
from pathlib import Path
from string import Template

from mars_demo.show.components.stage import read, stage
from mars_demo.static import standalone

_REPLAY = Template(Path(__file__).with_suffix(".html").read_text("utf-8"))


def replay_page(record: str) -> str:
    """Return one HTML file that replays a record without a server.

    record: the JSON lines of its runs, after the title and note if it is a recording.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    title = textwrap.shorten(read(record)[0].settings.prompt, 80, placeholder=" …")
    replay = stage(alone=True)
    body = _REPLAY.substitute(figure=standalone.figure(replay, record))
    return standalone.document(f"MARS Demo: {title}", body, [replay])
