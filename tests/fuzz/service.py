"""Clients of the app and of the endpoint that check every answer."""

import itertools
import json
import re

import httpx

API = "/gradio_api"
JSON = {"content-type": "application/json"}
KNOWN = {"prompt": "How many meters is 14 kilometers?", "model": "mars-tiny", "mode": "mars", "tau": 0.9}
KNOWN |= {"window": None, "max_new_tokens": 24, "criterion": "probability"}
KNOWN |= {"temperature": 0.0, "top_p": 1.0, "seed": 0, "schema": None, "trace": False}
# Traces of code and contents of private files, which no answer may contain.
LEAKS = re.compile(
    r"Traceback \(most|File \\?\"|site-packages|\.py\\?\", line|mars_demo/|\b\w+Error\b: |"
    r"object has no attribute|NoneType|unhashable type|root:x:0|/tmp/|/home/\w+/"
)
SENTENCE = re.compile(r"\S.*[.!?…]\W*$", re.DOTALL)


def assert_explained(answer: object) -> None:
    """Assert that an answer contains an error message that is a sentence."""
    message = answer.get("error") or answer.get("detail") if isinstance(answer, dict) else None
    message = message.get("message") if isinstance(message, dict) else message
    assert isinstance(message, str) and SENTENCE.match(message), answer


class Client:
    """A client of a server that checks every answer."""

    def __init__(self, url: str):
        self.client = httpx.Client(base_url=url, timeout=300)

    def get(self, path: str, **query) -> httpx.Response:
        return self._checked(self.client.get(path, params=query or None))

    def post(self, path: str, content: bytes, headers: dict = JSON) -> httpx.Response:
        return self._checked(self.client.post(path, content=content, headers=headers))

    def _checked(self, response: httpx.Response) -> httpx.Response:
        if "text/html" not in response.headers.get("content-type", ""):  # the page names its own modules
            assert not LEAKS.search(response.text), response.text[:300]
        if response.status_code >= 500:
            assert_explained(response.json())
        return response


class App(Client):
    """A client of the app."""

    def __init__(self, url: str):
        super().__init__(url)
        config = self.client.get("/config").json()
        self.functions = [one for one in config["dependencies"] if one["backend_fn"]]
        self.components = [component["id"] for component in config["components"]]
        self._numbers = itertools.count(1)

    def named(self, name: str) -> dict:
        return next(one for one in self.functions if one["api_name"] == name)

    def generate(self, content: bytes, form: str = "call") -> str | None:
        """Return the answer of `generate`; None for an error message."""
        response = self.post(f"{API}/{form}/generate", content)
        if response.is_error:
            return None
        path = f"{API}/call/generate/{response.json()['event_id']}"
        *_, kind, data = self.get(path).text.strip().splitlines()
        answer = json.loads(data.removeprefix("data: "))
        if kind == "event: complete":
            return answer[0]
        assert_explained(answer)

    def call(self, name_or_function, data: list, event=None, session: str | None = None) -> dict | None:
        """Return what a function of the page answers; None if the request is rejected."""
        one = self.named(name_or_function) if isinstance(name_or_function, str) else name_or_function
        session = session or f"visitor{next(self._numbers)}"
        request = {"data": data, "fn_index": one["id"], "session_hash": session, "event_data": event}
        content = json.dumps(request).encode()
        if not one["queue"]:
            response = self.post(f"{API}/run/predict", content)
            return None if response.is_error else response.json()
        response = self.post(f"{API}/queue/join?", content)
        return None if response.is_error else self._outcome(session, response.json()["event_id"])

    def _outcome(self, session: str, event: str) -> dict | None:
        with self.client.stream("GET", f"{API}/queue/data?session_hash={session}") as stream:
            for line in stream.iter_lines():
                assert not LEAKS.search(line), line[:300]
                message = json.loads(line[6:]) if line.startswith("data: ") else {"msg": ""}
                assert message["msg"] not in ("unexpected_error", "server_stopped"), line
                if message["msg"] == "process_completed" and message.get("event_id") == event:
                    if message["success"]:
                        return message["output"]
                    return assert_explained(message["output"])
        raise AssertionError("the stream ended without an answer")
