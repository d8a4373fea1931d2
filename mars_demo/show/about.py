"""The icon and the footer that all pages share."""

import html
from pathlib import Path

from mars_demo.core.links import LICENCE, PAPER

ICON = Path(__file__).with_name("icon.svg")


def footer(code: str = "") -> str:
    """Return the links of a page's footer as HTML: paper, licence and, if it is known, the code.

    code: its URL.
    """
    links = {"Paper: arXiv 2604.07023": PAPER, "Code": code, "Licence: Apache 2.0": LICENCE}
    shown = (
        f'<a href="{html.escape(url)}" target="_blank" rel="noreferrer">{name.replace(" ", "&nbsp;")}</a>'
        for name, url in links.items()
        if url
    )
    return f"<footer><p>{' · '.join(shown)}</p></footer>"
