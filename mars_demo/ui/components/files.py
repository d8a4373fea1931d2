"""The components' script and style sheet as files of the server, which browsers cache permanently."""

import hashlib

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mars_demo.ui.components import bundle

PREFIX = "gradio_api/components"  # below Gradio's prefix: its Node server forwards few other paths
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}


def _url(text: str, ending: str) -> str:
    """Return the URL of a file with this text, relative to the page: a proxy may add a path before it."""
    return f"{PREFIX}/{hashlib.sha256(text.encode()).hexdigest()[:16]}.{ending}"


_SCRIPT, _STYLE = bundle.script(), bundle.style()
SCRIPT_URL, STYLE_URL = _url(_SCRIPT, "js"), _url(_STYLE, "css")
_FILES = {SCRIPT_URL: (_SCRIPT, "text/javascript"), STYLE_URL: (_STYLE, "text/css")}


async def _serve(request: Request) -> Response:
    url = f"{PREFIX}/{request.path_params['name']}"
    if url not in _FILES:
        return Response(status_code=404)
    text, media_type = _FILES[url]
    return Response(text, media_type=media_type, headers=FOREVER)


ROUTE = Route(f"/{PREFIX}/{{name}}", _serve)
