"""The endpoint for chat clients on the page's own web server."""

from typing import Any

from mars_demo.serving.endpoint import mounted
from mars_demo.serving.servers import Servers
from mars_demo.ui import gpu, models

SIZE = 8  # requests that share a forward


def settings() -> dict[str, Any]:
    """Return what `launch` needs to serve the endpoint besides the page. Both have the same models.

    Raises:
        ValueError: on ZeroGPU, where nothing computes unless a visitor's click has asked for a GPU.
    """
    if gpu.LENT:
        raise ValueError("--endpoint needs a device of its own; on ZeroGPU there is none.")
    # Before Gradio's own routes, which answer whatever they do not know with the page.
    return {"routes": [mounted(Servers(models.pool(), SIZE))]}
