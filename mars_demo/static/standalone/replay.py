"""A record as one HTML file that replays it without a server."""

import textwrap
from pathlib import Path
from string import Template

from mars_demo.show.components.stage import read_record, stage
from mars_demo.static import standalone

SLOT = "\ue000"  # a private-use character, which no file of the page has

_REPLAY = Template(Path(__file__).with_suffix(".html").read_text("utf-8"))


def replay_page(record: str) -> str:
    """Return one HTML file that replays a record without a server.

    record: the JSON lines of its runs, after the title and note if it is a recording.

    Raises:
        ValueError: if it is not a record, or larger than the limit.
    """
    runs = read_record(record)
    return _replay(textwrap.shorten(runs[0].settings.prompt, 80, placeholder=" …"), record)


def replay_template() -> str:
    """Return such a file with `SLOT` in place of the record without markup."""
    return _replay("a run", SLOT)


def _replay(title: str, record: str) -> str:
    replay = stage(alone=True)
    body = _REPLAY.substitute(figure=standalone.figure(replay, record), share=standalone.SHARE)
    return standalone.document(f"MARS Demo: {title}", body, [replay])
