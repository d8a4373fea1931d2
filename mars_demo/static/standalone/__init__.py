"""Static pages: HTML files in which the scripts of the app's components run without Gradio.

A page contains its data, as JSON without markup, and a content security policy that allows its own scripts
only. It is a single file, or it shares a folder of scripts and style sheets with other pages.
"""

import html
import secrets
from collections.abc import Sequence
from pathlib import Path
from string import Template
from urllib.parse import quote

from mars_demo.show.about import ICON, footer
from mars_demo.show.components import Figure
from mars_demo.show.scripts import built, style

# Below the figure of a run: shown on pages of a web server.
SHARE = """<p class="share" hidden><button type="button">Copy link</button>
<button type="button" class="embed">Copy embed code</button> <output></output></p>
"""
_HERE = Path(__file__).parent
_PAGE = Template((_HERE / "page.html").read_text("utf-8"))
_ICON = f"data:image/svg+xml,{quote(ICON.read_text('utf-8'))}"
_MARKUP = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def figure(component: Figure, value: str) -> str:
    """Return the HTML of a component with its value, JSON or JSON lines."""
    constants = html.escape(component.constants_json)
    return (
        f'<div data-figure="{component.drawing}" data-constants="{constants}"></div>\n'
        f'<script type="application/json">{data(value)}</script>\n'
    )


def data(value: str) -> str:
    """Escape JSON or JSON lines so that they contain no markup.

    JSON has the escaped characters in strings only, where escapes are allowed.
    """
    return value.translate(_MARKUP)


def document(
    title: str,
    body: str,
    components: Sequence[Figure] = (),
    shared: str | None = None,
    script: str = "static.js",
    styles: Sequence[str] = (),
    policy: str = "",
) -> str:
    """Return the HTML of a page.

    Args:
        title: plain text.
        body: HTML, with the figures of `components`.
        components: the components of the figures.
        shared: the URL of the folder with the page's `files`; None for a single file.
        script: the script that starts the figures.
        styles: the names of further style sheets in that folder.
        policy: further directives of its content security policy.
    """
    nonce = secrets.token_urlsafe(16)  # the policy allows no URLs, only elements with this nonce
    texts = files(components)
    names = ("page.css", "components.css", *styles, "components.js", script)
    return _PAGE.substitute(
        nonce=nonce,
        title=html.escape(title),
        icon=_ICON,
        policy=policy,
        tags="".join(_tag(name, texts.get(name, ""), nonce, shared) for name in names),
        body=body,
        footer=footer(),
    )


def files(components: Sequence[Figure]) -> dict[str, str]:
    """Return the scripts and style sheets of pages with these components, by file name."""
    drawings = sorted({component.drawing for component in components})
    return {
        "page.css": (_HERE / "page.css").read_text("utf-8"),
        "components.css": style(drawings),
        "components.js": built(*drawings),
        "static.js": built("static"),
    }


def _tag(name: str, text: str, nonce: str, shared: str | None) -> str:
    """Return the HTML element of a script or style sheet, with its text or its URL in a folder."""
    if name.endswith(".css"):
        if shared is None:
            return f'<style nonce="{nonce}">\n{text}</style>\n'
        return f'<link rel="stylesheet" nonce="{nonce}" href="{shared}/{name}">\n'
    if shared is None:
        return f'<script nonce="{nonce}">\n{text}</script>\n'
    return f'<script nonce="{nonce}" src="{shared}/{name}"></script>\n'
