"""The page of a visitor without its browser: it speaks with the server as Gradio's own page does.

Like a browser it loads the document, holds a heartbeat open, sends events that do not queue as plain
requests and the others into the queue, and reads these events' messages from one stream of server-sent
events, in which growing values come as differences. Scripts of the page do not run here.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import httpx
from gradio_client.utils import apply_diff

Watch = Callable[[dict[str, Any]], None]
NOTHING: Watch = lambda message: None  # noqa: E731


class Trouble(Exception):
    """What a visitor would see as an error, in a sentence."""


class Layout:
    """What the server says of the page: its components by their names, and which event starts what."""

    def __init__(self, config: dict[str, Any]):
        components = config["components"]
        self.prefix = config["api_prefix"]
        self.ids = {c["props"]["elem_id"]: c["id"] for c in components if c["props"].get("elem_id")}
        self.values = {c["id"]: c["props"].get("value") for c in components if c["type"] != "state"}
        self._dependencies = config["dependencies"]

    @classmethod
    async def read(cls, client: httpx.AsyncClient) -> Layout:
        answer = await client.get("/config")
        answer.raise_for_status()
        return cls(answer.json())

    def started(self, event: str, component: int | None = None) -> list[dict]:
        """What an event of a component, or of the whole page, starts."""
        return [
            one
            for one in self._dependencies
            if any(name == event and component in (None, of) for of, name in one["targets"])
        ]

    def after(self, dependency: dict) -> list[dict]:
        """What follows one that has succeeded."""
        following = (one for one in self._dependencies if one["trigger_after"] == dependency["id"])
        return [one for one in following if not one["trigger_only_on_failure"]]


class Page:
    """One visit. A reload is another one."""

    def __init__(self, client: httpx.AsyncClient, layout: Layout):
        self.session = secrets.token_hex(6)
        self.values = dict(layout.values)
        self._client, self._layout = client, layout
        self._messages: defaultdict[str, asyncio.Queue] = defaultdict(asyncio.Queue)
        self._pending: set[str] = set()
        self._heartbeat: asyncio.Task | None = None
        self._stream: asyncio.Task | None = None

    # ------------------------------------------------------------------------- what a visitor does

    async def open(self) -> None:
        """Load the document and whatever the page asks for when it is there."""
        (await self._client.get("/")).raise_for_status()
        self._heartbeat = asyncio.create_task(self._hold(f"heartbeat/{self.session}"))
        await self._start(self._layout.started("load"))

    def put(self, name: str, value: Any) -> None:
        """Set a control, as typing does; nothing is sent."""
        self.values[self._layout.ids[name]] = value

    def value(self, name: str) -> Any:
        return self.values[self._layout.ids[name]]

    async def fire(self, name: str, event: str, watch: Watch = NOTHING) -> None:
        """Let an event of a control start what it starts, and wait for the end of that.

        watch: gets every message of the queue, with the values in `values` as far as they have grown, by
            the names of their components.

        Raises:
            Trouble: if anything fails.
        """
        component = self._layout.ids[name]
        await self._start(self._layout.started(event, component), component, watch)

    async def leave(self) -> None:
        """Close all connections without a word."""
        tasks = [task for task in (self._heartbeat, self._stream) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---------------------------------------------------------------------------- events and chains

    async def _start(self, chain: list[dict], trigger: int | None = None, watch: Watch = NOTHING) -> None:
        for dependency in chain:
            if dependency["backend_fn"]:
                values = await self._call(dependency, trigger, watch)
                await self._take(dependency["outputs"], values)
            await self._start(self._layout.after(dependency), trigger, watch)

    async def _take(self, outputs: list[int], values: list) -> None:
        """Set what came back, and start what follows a change."""
        changed = []
        for component, value in zip(outputs, values):
            if isinstance(value, dict) and value.get("__type__") == "update":
                if "value" not in value:
                    continue
                value = value["value"]
            if component in self.values and self.values[component] != value:
                self.values[component] = value
                changed.append(component)
        for component in changed:
            await self._start(self._layout.started("change", component), component)

    async def _call(self, dependency: dict, trigger: int | None, watch: Watch) -> list:
        asked = {
            "data": [self.values.get(component) for component in dependency["inputs"]],
            "event_data": None,
            "fn_index": dependency["id"],
            "trigger_id": trigger,
            "session_hash": self.session,
        }
        if dependency["queue"] is False:
            return (await self._post("run/predict", asked)).get("data", [])
        event = (await self._post("queue/join", asked))["event_id"]
        self._pending.add(event)
        if self._stream is None or self._stream.done():
            self._stream = asyncio.create_task(self._read())
        try:
            return await self._follow(dependency, event, watch)
        finally:
            self._pending.discard(event)
            self._messages.pop(event, None)

    async def _follow(self, dependency: dict, event: str, watch: Watch) -> list:
        """The messages of an event in the queue until it is completed; what it gave."""
        names = {component: name for name, component in self._layout.ids.items()}
        outputs = [names.get(component) for component in dependency["outputs"]]
        values: list | None = None
        while True:
            message = await self._messages[event].get()
            kind, data = message["msg"], (message.get("output") or {}).get("data", [])
            if kind == "process_generating":
                values = (
                    data if values is None else [apply_diff(old, edit) for old, edit in zip(values, data)]
                )
                message["values"] = dict(zip(outputs, values))
            elif kind == "process_completed" and message["success"]:
                message["values"] = dict(zip(outputs, data))
            elif kind in ("process_completed", "unexpected_error", "server_stopped"):
                raise Trouble((message.get("output") or message).get("error") or f"{kind}: {message}")
            elif kind == "log" and message["level"] != "info":
                raise Trouble(f"{message['level']}: {message['log']}")
            watch(message)
            if kind == "process_completed":
                return data

    # ---------------------------------------------------------------------------------- connections

    async def _post(self, path: str, asked: dict) -> dict:
        try:
            answer = await self._client.post(f"{self._layout.prefix}/{path}", json=asked)
        except httpx.TransportError as error:
            raise Trouble(f"{path}: {type(error).__name__} {error}") from error
        if not answer.is_success:
            raise Trouble(f"{path}: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    async def _hold(self, path: str) -> None:
        """Keep a stream open that says nothing that matters."""
        with suppress(httpx.TransportError):
            async for _ in self._lines(path):
                pass

    async def _read(self) -> None:
        """Hand the session's messages to the events that wait for them, while there are any."""
        problem = "The stream ended while an event was waited for."
        try:
            while self._pending:
                async for line in self._lines(f"queue/data?session_hash={self.session}"):
                    message = json.loads(line.removeprefix(b"data:"))
                    if event := message.get("event_id"):
                        self._messages[event].put_nowait(message)
                    elif message["msg"] == "unexpected_error":
                        raise Trouble(message["message"])
                await asyncio.sleep(0)  # whoever got the last message has stopped waiting after this
        except (httpx.HTTPError, Trouble) as error:
            problem = f"The stream broke: {type(error).__name__} {error}"
        for event in self._pending:
            self._messages[event].put_nowait({"msg": "unexpected_error", "error": problem})

    async def _lines(self, path: str) -> AsyncIterator[bytes]:
        """The events of a stream of server-sent events, each as one line of bytes."""
        rest = b""
        async with self._client.stream("GET", f"{self._layout.prefix}/{path}", timeout=None) as answer:
            answer.raise_for_status()
            async for part in answer.aiter_bytes():
                *lines, rest = (rest + part).split(b"\n\n")
                for line in lines:
                    yield line
