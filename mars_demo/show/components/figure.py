"""The drawings of the custom components, on the page and on static pages."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A drawing made of a folder beside this file: `NAME/NAME.html`, `.css` and `.js`.

    constants: data for its script, besides the value that it draws.
    """

    drawing: str
    constants: Any = None

    @property
    def constants_json(self) -> str:
        return json.dumps(self.constants)
