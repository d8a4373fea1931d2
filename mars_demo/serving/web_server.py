"""A web server with the endpoint and nothing else."""

import socket

import uvicorn
from starlette.applications import Starlette

from mars_demo.serving.endpoint import HANDLERS, mounted
from mars_demo.serving.servers import Servers

GRACE = 10  # seconds in which connections are closed


class WebServer(uvicorn.Server):
    """Serves until it is interrupted; then it ends all answers, and their clients are told so."""

    def __init__(self, servers: Servers):
        application = Starlette(routes=[mounted(servers)], exception_handlers=HANDLERS)
        quiet = {"log_level": "warning", "lifespan": "off"}
        super().__init__(uvicorn.Config(application, timeout_graceful_shutdown=GRACE, **quiet))
        self._ours = servers

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._ours.close()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Open a socket at that address.

    Raises:
        ValueError: if it cannot be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"{host}:{port} cannot be listened on: {error.strerror or error}.") from error
