"""The gallery: recorded runs and lessons as a folder of static pages."""

import html
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import Any

from mars_demo.core.trace import rules
from mars_demo.show import recordings
from mars_demo.show.components.stage import stage
from mars_demo.show.scripts import built
from mars_demo.static import live, standalone
from mars_demo.static.space import check_new, fields, write_card
from mars_demo.ui.lessons import CHAPTERS, pages

TITLE = "MARS Demo: recorded runs and lessons"
WHAT = Path(__file__).with_suffix(".md").read_text("utf-8")
RECORD = Template((Path(__file__).with_name("record.html")).read_text("utf-8"))
OPENS = '<p><a class="opens-records" href="record.html">Open the record of a run by its address</a></p>\n'
LIVE = """## Live

[Write your own prompt](live/index.html): the model answers in your browser."""


def write_pages(output: Path, live_files: Path | None = None, repository: str | None = None) -> None:
    """Write the gallery's folder, which is also a static Space.

    live_files: the folder of `live.collect`, which is moved there and gets its page; None for no live page.
    repository: the OWNER/NAME of the Space, if it has one already.

    Raises:
        ValueError: if the folder is not empty.
    """
    check_new(output)
    run_figure = stage(alone=True)
    runs, drawings = recordings.index(), [run_figure]
    files = {"index.html": _index(runs, live_files is not None), "lessons.html": pages.all_lessons()}
    for number, entry in enumerate(runs):
        main = standalone.figure(run_figure, recordings.recording(entry["id"]))
        files[f"runs/{entry['id']}.html"] = _page(runs, number, main + standalone.SHARE, [run_figure])
    for number, (chapter, (main, own)) in enumerate(zip(CHAPTERS, pages.lessons())):
        drawings += own
        files[f"lessons/{chapter['id']}.html"] = _page(CHAPTERS, number, main, own)
    files |= {"record.html": _record(), "shared/record.js": built("record")}
    files |= {f"shared/{name}": text for name, text in standalone.files(drawings).items()}
    if live_files:
        files |= live.pages(live_files, run_figure)
        shutil.copytree(live_files, output / "live")
    for name, text in files.items():
        path = output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    write_card(output, _card(), f"# {TITLE}\n\n{WHAT}", repository)


# ------------------------------------------------------------------------------- around what is shown


def _page(entries: Sequence[dict], number: int, main: str, drawings: Sequence[standalone.Figure]) -> str:
    """Return the page of `entries[number]`, with links to the previous and the next page."""
    title = entries[number]["title"]
    links = [
        f"{name}: {_link(entries[at])}"
        for name, at in (("Previous", number - 1), ("Next", number + 1))
        if 0 <= at < len(entries)
    ]
    body = (
        f"<header>\n<h1>{html.escape(title)}</h1>\n"
        f'<nav><a href="../index.html">All runs and lessons</a></nav>\n</header>\n<main>\n{main}</main>\n'
        f"<footer>\n<nav>{' · '.join(links)}</nav>\n</footer>\n"
    )
    return standalone.document(title, body, drawings, "../shared")


def _record() -> str:
    """Return the page that shows a record at an address: `?run=ADDRESS`."""
    figure = stage(alone=True, empty="No record is open.")
    body = RECORD.substitute(
        figure=standalone.figure(figure, ""),
        rules=standalone.data(json.dumps(rules())),
        share=standalone.SHARE,
    )
    policy = "connect-src 'self' https:; "
    return standalone.document("A recorded run", body, [figure], "shared", "record.js", policy=policy)


def _link(entry: dict) -> str:
    return f'<a href="{entry["id"]}.html">{html.escape(entry["title"])}</a>'


def _index(runs: Sequence[dict], has_live: bool) -> str:
    listed = [
        f"- [{run['title']}](runs/{run['id']}.html)\n\n  {run['note']}\n\n  {run['model']}" for run in runs
    ]
    lessons = [f"1. [{chapter['title']}](lessons/{chapter['id']}.html)" for chapter in CHAPTERS]
    parts = [WHAT, LIVE if has_live else "", "## Recorded runs", *listed, "## Lessons", "\n".join(lessons)]
    main = pages.html_of("\n\n".join(parts)) + OPENS + pages.for_teachers("lessons.html")
    body = f"<header>\n<h1>{TITLE}</h1>\n</header>\n<main>\n{main}</main>\n"
    return standalone.document(TITLE, body, shared="shared")


def _card() -> dict[str, Any]:
    app = fields()
    return {
        "title": "MARS Demo, recorded",
        **{key: app[key] for key in ("emoji", "colorFrom", "colorTo", "license", "models")},
        "tags": [tag for tag in app["tags"] if tag != "mcp-server"],
        "sdk": "static",
        "app_file": "index.html",
        "short_description": "Recorded runs, replayed forward by forward",
        # Browsers share memory between threads only on pages with these headers.
        "custom_headers": {
            "cross-origin-embedder-policy": "require-corp",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "cross-origin",
        },
    }
