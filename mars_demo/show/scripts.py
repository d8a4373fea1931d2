"""The scripts and style sheets of the pages.

`npm run build` makes the scripts in `built/` from the JavaScript modules beside this file. The app serves
them as files that browsers cache permanently; static pages contain them.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

COMPONENTS = Path(__file__).with_name("components")
ALL = tuple(sorted(path.parent.name for path in COMPONENTS.glob("*/*.css")))
PREFIX = "gradio_api/components"  # below Gradio's prefix: its Node server forwards few other paths
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


def built(*names: str) -> str:
    """Return built scripts, one after the other."""
    return "".join((Path(__file__).with_name("built") / f"{name}.js").read_text("utf-8") for name in names)


def style(components: Iterable[str] = ALL) -> str:
    """Return the style sheets of these components, after the one that they share."""
    paths = "shared.css", *(f"{name}/{name}.css" for name in components)
    return "".join((COMPONENTS / path).read_text("utf-8") for path in paths)


def call(function: str, data: Any = None) -> str:
    """Return JavaScript for the `js` of an event: a call of a function of page.js.

    It is called with `data`, followed by the values of the event's inputs.
    """
    return f"(...values) => marsDemo.{function}({json.dumps(data)}, ...values)"


def _url(text: str, ending: str) -> str:
    """Return the URL of a file with this text, relative to the page: a proxy may add a path before it."""
    return f"{PREFIX}/{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


_SCRIPT, _STYLE = built(*ALL), style()
SCRIPT_URL, STYLE_URL = _url(_SCRIPT, "js"), _url(_STYLE, "css")
_FILES = {SCRIPT_URL: (_SCRIPT, "text/javascript"), STYLE_URL: (_STYLE, "text/css")}


async def _serve(request: Request) -> Response:
    url = f"{PREFIX}/{request.path_params['name']}"
    if url not in _FILES:
        return Response(status_code=404)
    text, media_type = _FILES[url]
    return Response(text, media_type=media_type, headers=FOREVER)


ROUTE = Route(f"/{PREFIX}/{{name}}", _serve)
