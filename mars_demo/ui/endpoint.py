"""The OpenAI-compatible endpoint on the page's own web server."""

from typing import Any

from mars_demo.serving.endpoint import routes
from mars_demo.serving.servers import Servers
from mars_demo.ui.hosting import gpu
from mars_demo.ui.hosting.registry import MODELS


def settings() -> dict[str, Any]:
    """Return the settings of `launch` that add the endpoint to the page. Both serve the same models.

    Raises:
        ValueError: on ZeroGPU, which lends a GPU only for a visitor's click.
    """
    if gpu.LENT:
        raise ValueError("--endpoint needs a permanent device, which ZeroGPU does not have.")
    # Before Gradio's own routes, which answer unknown paths with the page.
    return {"routes": routes(Servers(MODELS))}
