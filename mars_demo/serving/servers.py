"""The servers of an endpoint: one per model, started at the first request for it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

from mars_demo.core.acceptance import TAU, by_load
from mars_demo.core.limits import LIMITS
from mars_demo.models.pool import Pool
from mars_demo.serving.chat_body import ChatBody
from mars_demo.serving.metrics import Metrics
from mars_demo.serving.refusal import Refusal
from mars_demo.serving.server import Job, Server

RETRY = 5  # seconds


class Servers:
    """Servers of the models in a pool, all on the event loop of the first request.

    Up to `size` requests to a model share its forwards; others wait. `tau` applies to requests that name
    none: it falls from its second to its first number as a model's queue grows to a batch.
    """

    def __init__(self, pool: Pool, size: int = 8, tau: tuple[float, float] = (TAU, TAU)):
        self.pool, self.size, self.tau, self.metrics = pool, size, tau, Metrics()
        self._servers: dict[str, Server] = {}
        self._lock = asyncio.Lock()
        self._closed = False

    def check(self, name: str) -> None:
        """Check that a model is served.

        Raises:
            Refusal: if it is not.
        """
        try:
            self.pool.member(name)
        except ValueError as error:
            raise Refusal(404, str(error), "model", "model_not_found") from error

    def check_loaded(self) -> None:
        """Check that a model is loaded; the first one is the first to be loaded.

        Raises:
            Refusal: if none is, with the reason if none can be.
        """
        members = [self.pool.member(name) for name in self.pool.names()]
        if not any(member.phase == "ready" for member in members):
            problem = members[0].problem if all(member.problem for member in members) else None
            raise Refusal(503, problem or "The models are loading.", retry=RETRY)

    async def submit(self, body: ChatBody) -> Job:
        """Queue a request at its model's server.

        Raises:
            Refusal: if there is no such model, it cannot be loaded, its queue is full, it does not support
                the request, or the servers are closing.
        """
        server = await self._get(body.model)
        request = body.request(lambda: by_load(*self.tau, server.waiting / server.size))
        try:
            return server.submit(body.conversation, request)
        except ValueError as error:
            raise Refusal(400, str(error)) from error

    async def _get(self, name: str) -> Server:
        """Return the server of a model, loaded if necessary, with room in its queue for a request."""
        self.check(name)
        if name not in self._servers:
            async with self._lock:
                await self._load(name)
        if self._closed:
            raise Refusal(503, "The server is shutting down.")
        server = self._servers[name]
        if (waiting := len(server.jobs) - server.size) >= LIMITS.waiting:
            sentence = f"The queue is full, with {waiting} requests; try again in {RETRY} seconds."
            raise Refusal(429, sentence, code="rate_limit_exceeded", retry=RETRY)
        return server

    async def _load(self, name: str) -> None:
        if name in self._servers or self._closed:
            return
        try:
            server = await asyncio.to_thread(self._make, name)
        except ValueError as error:
            raise Refusal(503, str(error), "model") from error
        if not self._closed:
            self._servers[name] = server
            self.metrics.watch(name, server)

    def _make(self, name: str) -> Server:
        checkpoint = self.pool.load(name).dense
        checkpoint = replace(checkpoint, context=min(checkpoint.context, LIMITS.tokens))
        return Server(checkpoint, self.size, partial(self.metrics.job_ended, name))

    async def close(self) -> None:
        """Close all servers and end their requests."""
        self._closed = True
        for server in self._servers.values():
            await server.aclose()
