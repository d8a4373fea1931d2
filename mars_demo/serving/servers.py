"""The servers of an endpoint: one per model, started at the first request for it."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace

from mars_demo.limits import LIMITS
from mars_demo.models.pool import Pool
from mars_demo.serving.refusal import Refusal
from mars_demo.serving.server import Server

RETRY = 5  # seconds


class Servers:
    """Servers of the models in a pool, all on the event loop of the first request.

    Up to `size` requests to a model share its forwards; others wait.
    """

    def __init__(self, pool: Pool, size: int):
        self.pool, self.size = pool, size
        self._servers: dict[str, Server] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._loading = 0  # requests that wait for a model to load
        self._closed = False

    def check(self, name: str) -> None:
        """Check that a model is served.

        Raises:
            Refusal: if it is not.
        """
        if name not in self.pool.names():
            names = ", ".join(self.pool.names())
            sentence = f"Unknown model {name[:100]!r}. Choose from {names}."
            raise Refusal(404, sentence, "model", "model_not_found")

    async def get(self, name: str) -> Server:
        """Return the server of a model, loaded if necessary, with room in its queue for one more request.

        Raises:
            Refusal: if there is no such model, it cannot be loaded, its queue is full, or the servers are
                closing.
        """
        self.check(name)
        if name not in self._servers:
            self._check_queue(self._loading)
            self._loading += 1
            try:
                await self._load(name)
            finally:
                self._loading -= 1
        if self._closed:
            raise Refusal(503, "The server is shutting down.")
        server = self._servers[name]
        self._check_queue(server.active + server.waiting - server.size)
        return server

    async def _load(self, name: str) -> None:
        async with self._lock:
            if name not in self._servers and not self._closed:
                try:
                    server = await asyncio.to_thread(self._make, name)
                except ValueError as error:
                    raise Refusal(503, str(error), "model") from error
                if self._closed:
                    return
                self._servers[name] = await self._stack.enter_async_context(server)

    def _make(self, name: str) -> Server:
        checkpoint = self.pool.load(name).dense
        return Server(replace(checkpoint, context=min(checkpoint.context, LIMITS.tokens)), self.size)

    def _check_queue(self, waiting: int) -> None:
        if waiting >= LIMITS.waiting:
            sentence = f"The queue is full, with {waiting} requests; try again in {RETRY} seconds."
            raise Refusal(429, sentence, code="rate_limit_exceeded", retry=RETRY)

    async def close(self) -> None:
        """Close all servers and end their requests."""
        self._closed = True
        await self._stack.aclose()
