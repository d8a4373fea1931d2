"""Pages that need no server: HTML files in which the scripts of the app's components run without Gradio.

A page holds its data itself, as JSON that cannot be markup, and a policy that lets it run its own scripts
and load nothing else. It is one file, or its scripts and style sheets lie in a folder that pages share.
"""

import html
import secrets
from collections.abc import Sequence
from pathlib import Path
from string import Template

import yaml

from mars_demo.assets import ASSETS
from mars_demo.ui.components import bundle
from mars_demo.ui.components.drawing import GIVEN, Drawing

CARD = yaml.safe_load((ASSETS.parent / "space.yaml").read_text("utf-8"))

_HERE = Path(__file__).parent
_PAGE = Template((_HERE / "page.html").read_text("utf-8"))
_ICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'>"
    f"<text y='16' font-size='16'>{CARD['emoji']}</text></svg>"
)
_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def figure(component: Drawing, value: str) -> str:
    """Return the HTML of a component on a page, with its value: JSON or JSON lines. One that asks the
    server what to draw stays as the value has it, without its controls."""
    still = " data-still" if asks_server(component) else ""
    return (
        f'<div data-figure="{component.elem_id}"{still}>\n{component.html_template}</div>\n'
        f'<script type="application/json">{data(value)}</script>\n'
    )


def asks_server(component: Drawing) -> bool:
    return bool(component.server_fns)


def data(value: str) -> str:
    """Return JSON or JSON lines in which nothing can be read as markup. Outside of texts JSON has none of
    these characters, and within texts it may write them with a backslash.
    """
    return value.translate(_MARKUP)


def document(title: str, body: str, components: Sequence[Drawing] = (), shared: str | None = None) -> str:
    """Return a page.

    Args:
        title: a text.
        body: HTML, with the figures of `components`.
        components: those that the page starts.
        shared: the URL of the folder with the page's `files`; None for a page that is one file.
    """
    nonce = secrets.token_urlsafe(16)  # the policy allows no URL, only what has the page's own number
    starts = {component.elem_id: data(component.js_on_load) for component in components}
    return _PAGE.substitute(
        nonce=nonce,
        title=html.escape(title),
        icon=html.escape(_ICON),
        tags="".join(_tag(name, text, nonce, shared) for name, text in files(components).items()),
        body=body,
        starts="".join(f'start("{id}", ({GIVEN}) => {{ {line} }});\n' for id, line in starts.items()),
    )


def files(components: Sequence[Drawing]) -> dict[str, str]:
    """Return the scripts and style sheets of pages with these components, by their names."""
    drawings = sorted({component.drawing for component in components})
    return {
        "page.css": (_HERE / "page.css").read_text("utf-8"),
        "components.css": bundle.style(drawings),
        "page.js": (_HERE / "page.js").read_text("utf-8"),
        "components.js": bundle.script(drawings),
    }


def _tag(name: str, text: str, nonce: str, shared: str | None) -> str:
    """Return the element that brings a file into a page: with its text, or with its URL in a folder."""
    if name.endswith(".css"):
        if shared is None:
            return f'<style nonce="{nonce}">\n{text}</style>\n'
        return f'<link rel="stylesheet" nonce="{nonce}" href="{shared}/{name}">\n'
    if shared is None:
        return f'<script nonce="{nonce}">\n{text}</script>\n'
    return f'<script nonce="{nonce}" src="{shared}/{name}"></script>\n'
