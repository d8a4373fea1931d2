"""A web server for the endpoint alone."""

import socket

import uvicorn
from starlette.applications import Starlette

from mars_demo.serving.endpoint import HANDLERS, routes
from mars_demo.serving.servers import Servers

GRACE = 10  # seconds to wait for open connections


class WebServer(uvicorn.Server):
    """A web server that, when interrupted, ends all answers with an error for their clients."""

    def __init__(self, servers: Servers):
        application = Starlette(routes=routes(servers), exception_handlers=HANDLERS)
        quiet = {"log_level": "warning", "lifespan": "off"}
        super().__init__(uvicorn.Config(application, timeout_graceful_shutdown=GRACE, **quiet))
        self._servers = servers

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._servers.close()
        await super().shutdown(sockets)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens on this host and port.

    Raises:
        ValueError: if the system does not allow it.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ValueError(f"Cannot listen on {host}:{port}: {error.strerror or error}.") from error
