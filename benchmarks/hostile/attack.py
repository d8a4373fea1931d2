"""Sends the cases to a server, and says what is wrong with its answers."""

from __future__ import annotations

import itertools
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random
from typing import Any

import httpx

from benchmarks.hostile import requests
from benchmarks.hostile.requests import API, Case, Page, body
from benchmarks.hostile.server import SECRET, Server

KNOWN = ("How many meters is 14 kilometers?", 24)  # a prompt and the tokens of its answer
WORKERS = 4
PATIENCE = 60  # seconds for an answer
# What no answer may hold: traces of the code, and what is in files that are nobody's business.
LEAKS = re.compile(
    r"Traceback \(most|File \\?\"|site-packages|\.py\\?\", line|mars_demo/|"
    r"\b\w+Error\b: |object has no attribute|NoneType|unhashable type|"
    rf"{SECRET}|root:x:0|/tmp/|/home/\w+/"
)
SENTENCE = re.compile(r"\S.*[.!?…]\W*$", re.DOTALL)


@dataclass
class Report:
    """What came of the cases."""

    sent: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    took: Counter[str] = field(default_factory=Counter)  # seconds, by kind
    slowest: float = 0.0
    seconds: float = 0.0


class Attack:
    """One server and what its visitors do to it.

    secrets: texts that no answer may hold, the names of somebody's models say.
    """

    def __init__(self, server: Server):
        self.server, self.report = server, Report()
        self.page = Page(httpx.get(f"{server.url}/config").json())
        self.secrets: list[str] = []
        self._told = itertools.count(1)  # what its visitors say about their conversations
        self._lock = threading.Lock()
        self._clients = threading.local()

    @property
    def client(self) -> httpx.Client:
        if not hasattr(self._clients, "own"):
            self._clients.own = httpx.Client(base_url=self.server.url, timeout=PATIENCE)
        return self._clients.own

    def run(self, cases: Iterator[Case]) -> Report:
        """Send the cases, several at a time."""
        started, taking = time.monotonic(), threading.Lock()

        def work() -> None:
            while True:
                with taking:
                    case = next(cases, None)
                if case is None:
                    return
                self.send(case)

        with ThreadPoolExecutor(WORKERS) as pool:
            for each in [pool.submit(work) for _ in range(WORKERS)]:
                each.result()
        self.report.seconds += time.monotonic() - started
        return self.report

    def send(self, case: Case) -> None:
        started = time.monotonic()
        try:
            outcome, fault, _ = self.answered(case)
        except httpx.TimeoutException:
            outcome, fault = "none", f"no answer within {PATIENCE} seconds"
        except httpx.HTTPError as error:
            outcome, fault = "none", f"the connection broke: {error}"
        with self._lock:
            self.report.sent[case.kind] += 1
            self.report.outcomes[outcome] += 1
            took = time.monotonic() - started
            self.report.took[case.kind] += took
            self.report.slowest = max(self.report.slowest, took)
            if fault:
                self.report.faults.append(f"{fault}\n    {case}")

    def answered(self, case: Case) -> tuple[str, str | None, Any]:
        """What kind of answer it is, what is wrong with it, and the answer."""
        if case.body is None:
            return self._judged(self.client.get(case.path, follow_redirects=False), case)
        response = self.client.post(case.path, content=case.body, headers=case.headers)
        outcome, fault, answer = self._judged(response, case)
        if case.queued and not fault and isinstance(answer, dict) and "event_id" in answer:
            return self._followed(case, answer["event_id"])
        return outcome, fault, answer

    def _judged(self, response: httpx.Response, case: Case) -> tuple[str, str | None, Any]:
        text = response.text
        try:
            answer = response.json()
        except ValueError:
            answer = None
        outcome = f"status {response.status_code}"
        if found := self.leak(text):
            return outcome, f"{outcome}, the answer holds {found!r}: {text[:300]}", answer
        if response.status_code >= 500 and not self._is_told(answer):
            return outcome, f"{outcome} without a sentence: {text[:300]}", answer
        return outcome, None, answer

    def leak(self, text: str) -> str | None:
        """What an answer holds that it must not."""
        found = LEAKS.search(text)
        known = next((secret for secret in self.secrets if secret in text), None)
        return known or (found[0] if found else None)

    @staticmethod
    def _is_told(answer: Any) -> bool:
        said = answer.get("error") or answer.get("detail") if isinstance(answer, dict) else None
        return isinstance(said, str) and bool(SENTENCE.match(said))

    def _followed(self, case: Case, event: str) -> tuple[str, str | None, Any]:
        """The last event of a call that was queued."""
        public = case.path.startswith(f"{API}/call/")
        path = f"{API}/call/generate/{event}" if public else f"{API}/queue/data?session_hash={case.session}"
        last, heard = None, ""
        with self.client.stream("GET", path) as stream:
            kind = ""
            for line in stream.iter_lines():
                heard += line if len(heard) < 200_000 else ""
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: ") and public and kind in ("complete", "error"):
                    last = {"success": kind == "complete", "output": json.loads(line[6:])}
                elif line.startswith("data: ") and not public:
                    message = json.loads(line[6:])
                    if message["msg"] == "process_completed" and message.get("event_id") == event:
                        last = message
                        break
                    if message["msg"] in ("unexpected_error", "server_stopped"):
                        return "none", f"the stream ended with {line[:300]}", None
        if last is None:
            return "none", f"the stream ended without an answer: {heard[:300]}", None
        outcome = "answered" if last["success"] else "refused with a sentence"
        if found := self.leak(heard):
            return outcome, f"the events hold {found!r}: {heard[:300]}", last
        if not last["success"] and not self._is_told(last["output"]):
            return outcome, f"refused without a sentence: {heard[-300:]}", last
        return outcome, None, last

    # ------------------------------------------------------------------------- other visitors

    def known_answer(self) -> str:
        """What a visitor who means well is answered."""
        prompt, tokens = KNOWN
        asked = {"data": [prompt, "mars-tiny", "mars", 0.9, None, tokens, "probability"]}
        case = Case("known", f"{API}/call/generate", body(asked), queued=True)
        _, fault, answer = self.answered(case)
        if fault or not answer["success"]:
            raise RuntimeError(f"A visitor who means well got no answer: {fault or answer}")
        lines = map(json.loads, answer["output"][0].splitlines())
        passes = [line for line in lines if "pass" in line]
        return "".join(slot["text"] for one in passes for slot in one["slots"][: one["accepted"]])

    def talk(self, session: str, messages: list[dict]) -> None:
        """A visitor's session continues from these messages."""
        one = self.page.named("show_history")
        said = {"messages": messages, "system": None, "number": next(self._told)}
        asked = {"data": [None], "fn_index": one["id"], "session_hash": session, "event_data": said}
        _, fault, answer = self.answered(Case("known", f"{API}/run/predict", body(asked), session))
        if fault or "data" not in answer:
            raise RuntimeError(f"A conversation was not taken: {fault or answer}")

    def messages_of(self, session: str) -> list[dict]:
        """Those that a race of that session continues, with a prompt that is right."""
        one = self.page.named("compete")
        values = [KNOWN[0], None, [], "probability", "", None, None, None]
        asked = {"data": values, "fn_index": one["id"], "session_hash": session}
        case = Case("known", f"{API}/queue/join?", body(asked), session, queued=True)
        _, fault, answer = self.answered(case)
        if fault or not answer["success"]:
            raise RuntimeError(f"A session was lost: {fault or answer}")
        return json.loads(answer["output"]["data"][0].splitlines()[0]).get("messages", [])


def cases(seed: int, count: int, page: Page) -> Iterator[Case]:
    """So many cases of all kinds; the same ones for the same seed and the same page."""
    kinds: dict[Callable, int] = requests.KINDS
    for number in range(count):
        rng = Random(f"{seed}-{number}")
        [make] = rng.choices([*kinds], [*kinds.values()])
        yield make(rng, page)
