"""The models that an endpoint serves: a `Server` for each, made when the model is first asked for."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from mars_demo.limits import LIMITS
from mars_demo.models.pool import Pool
from mars_demo.serving.refusal import Refusal

if TYPE_CHECKING:
    from mars_demo.serving.server import Server

RETRY = 5  # seconds


class Servers:
    """Servers over the models of a pool, all on the event loop that first asks for one. Up to `size`
    requests of a model share its forwards; more of them wait."""

    def __init__(self, pool: Pool, size: int):
        self.pool, self.size = pool, size
        self._servers: dict[str, Server] = {}
        self._stack = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._loading = 0  # requests that wait for a model
        self._closed = False

    def check(self, name: str) -> None:
        """
        Raises:
            Refusal: if there is no such model.
        """
        if name not in self.pool.names():
            known = ", ".join(self.pool.names())
            sentence = f"Unknown model {name[:100]!r}. Choose from {known}."
            raise Refusal(404, sentence, "model", "model_not_found")

    async def get(self, name: str) -> Server:
        """Return the server of a model, which is loaded if need be. The next request has a place in its
        queue.

        Raises:
            Refusal: if there is no such model, it cannot be had, too many requests wait, or all is ending.
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
            raise Refusal(503, "The server is ending.")
        server = self._servers[name]
        self._check_queue(server.active + server.waiting - server.size)
        return server

    async def _load(self, name: str) -> None:
        async with self._lock:
            if name not in self._servers and not self._closed:
                try:
                    server = await asyncio.to_thread(self._made, name)
                except ValueError as error:
                    raise Refusal(503, str(error), "model") from error
                if self._closed:
                    return
                self._servers[name] = await self._stack.enter_async_context(server)

    def _made(self, name: str) -> Server:
        checkpoint = self.pool.load(name).dense
        from mars_demo.serving.server import Server  # imports torch, which loading has done by now

        return Server(replace(checkpoint, context=min(checkpoint.context, LIMITS.tokens)), self.size)

    def _check_queue(self, waiting: int) -> None:
        if waiting >= LIMITS.waiting:
            sentence = f"{waiting} requests wait already; ask again in {RETRY} seconds."
            raise Refusal(429, sentence, code="rate_limit_exceeded", retry=RETRY)

    async def close(self) -> None:
        """End all servers, and with them the requests that they have."""
        self._closed = True
        await self._stack.aclose()
