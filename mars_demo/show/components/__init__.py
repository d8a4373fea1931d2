"""Custom components, each a folder of HTML, CSS, JavaScript and, for some, Python."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A drawing, on the page and on static pages, made of a folder: `NAME/NAME.html`, `.css` and `.js`.

    constants: data for its script, besides the value that it draws.
    """

    drawing: str
    constants: Any = None

    @property
    def constants_json(self) -> str:
        return json.dumps(self.constants)
