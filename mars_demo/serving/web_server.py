"""A web server for the endpoint alone."""

import re
import socket
from collections.abc import Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

from mars_demo.serving.endpoint import HANDLERS, routes
from mars_demo.serving.servers import Servers

ORIGIN = re.compile(r"\*|https?://[a-z0-9.-]+(:\d+)?|https?://\[[0-9a-f:]+\](:\d+)?")
GRACE = 10  # seconds to wait for open connections


class WebServer(uvicorn.Server):
    """A web server that, when interrupted, ends all answers with an error for their clients.

    origins: the sites whose pages may ask from a browser, or `*` for all.

    Raises:
        ValueError: if one of them is not an origin.
    """

    def __init__(self, servers: Servers, origins: Sequence[str] = ()):
        for origin in origins:
            if not ORIGIN.fullmatch(origin):
                raise ValueError(f"An origin is * or like https://example.org:8080, not {origin!r}.")
        cors = Middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["Retry-After"],
        )
        application = Starlette(
            routes=routes(servers), exception_handlers=HANDLERS, middleware=[cors] if origins else []
        )
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
