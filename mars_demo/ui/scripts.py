"""JavaScript that Gradio's events run in the browser; each file contains one function."""

import json
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


def script(name: str, data: Any = None) -> str:
    """Return the function of a file in this folder, for the `js` of an event.

    It is called with `data`, followed by the values of the event's inputs.
    """
    return f"(...values) => (\n{(_HERE / name).read_text('utf-8')})({json.dumps(data)}, ...values)"
