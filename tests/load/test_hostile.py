"""Bad inputs against the app, a few in this process and many against another; limits, from both sides."""

import json
import logging
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

from benchmarks.hostile import records
from benchmarks.hostile.__main__ import STAYS, TALK, attacked
from benchmarks.hostile.attack import KNOWN, Attack, cases
from benchmarks.hostile.requests import API, Case, body
from benchmarks.hostile.server import ROOT, SECRET, Server
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.ui import models, options
from mars_demo.ui.page import LOOK, build

FEW, MANY = 100, 1000
LIMITED = {"MARS_DEMO_PROMPT": "400", "MARS_DEMO_ANSWER": "256", "MARS_DEMO_RECORD": "1"}


@pytest.fixture(scope="module")
def attack():
    """An attack on an app in this process."""
    pool = models._pool
    models.serve(options.read(["--only", "--model", "mars-tiny", "--model", "ar-tiny"]))
    demo = build()
    demo.launch(prevent_thread_lock=True, quiet=True, **LOOK)
    models.load()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("benchmarks.hostile.attack.PATIENCE", 300)  # on a busy machine, nothing hangs yet
        yield Attack(SimpleNamespace(url=demo.local_url.rstrip("/")))
    demo.close()
    models._pool = pool


def is_expected(attack: Attack, mars_tiny) -> bool:
    """Return whether other visitors get their answer and keep their conversation."""
    text, tokens = KNOWN
    own = decode(mars_tiny, text, Request("mars", 0.9, max_new_tokens=tokens)).finish()
    return attack.known_answer() == own.text and attack.messages_of(STAYS) == TALK


def test_bad_inputs_get_values_or_messages_and_hurt_nobody(attack, mars_tiny, caplog, capfd):
    attack.talk(STAYS, TALK)
    with caplog.at_level(logging.WARNING, "mars_demo"):
        report = attack.run(cases(20, FEW, attack.page))
    assert report.faults == []
    assert len(report.sent) > 8 and sum(report.sent.values()) >= FEW
    assert is_expected(attack, mars_tiny)
    written = "".join(capfd.readouterr())
    assert not re.search(r"^(Traceback \(most|FORGED)", written, re.MULTILINE)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("mars_demo")]
    assert not any("\n" in line for line in lines)


@pytest.mark.full
def test_a_thousand_bad_inputs_hurt_no_app_of_its_own(tmp_path, mars_tiny):
    """There, files that it must not touch, memory and the whole log are watched too."""
    with Server(tmp_path / "app") as server:
        attack = Attack(server)
        assert attacked(attack, seed=20, count=MANY) == []
        assert is_expected(attack, mars_tiny)


def test_the_cases_of_a_seed_are_always_the_same(attack):
    first, again, other = (list(map(str, cases(seed, 50, attack.page))) for seed in (1, 1, 2))
    assert first == again != other


def test_an_answer_with_a_trace_of_the_code_is_noticed(attack):
    for text in ("Traceback (most recent call last):", "TypeError: 'x'", f"{SECRET}", "root:x:0:0"):
        assert attack.leak(text)
    assert not attack.leak('{"error":"tau must be a number from 0 to 1, not 2."}')


# ------------------------------------------------------------------------------------------ limits


@pytest.fixture
def limited(attack, monkeypatch):
    """The app with small limits of its operator."""
    for name, limit in LIMITED.items():
        monkeypatch.setenv(name, limit)
    return attack


def generated(attack: Attack, **changed) -> tuple[bool, str]:
    """Return whether a request is answered, and the record or the message."""
    values = {"prompt": "hello", "model": "mars-tiny", "mode": "ar", "tau": 1, "window": None}
    values |= {"max_new_tokens": 1, "criterion": "probability"} | changed
    data = {"data": [*values.values()]}
    _, fault, answer = attack.answered(Case("known", f"{API}/call/generate", body(data), queued=True))
    assert fault is None
    output = answer["output"]
    return answer["success"], output[0] if answer["success"] else output["error"]


def test_a_prompt_may_be_as_long_as_the_operator_says(limited):
    assert generated(limited, prompt="abcd " * 80)[0]
    is_answered, message = generated(limited, prompt="a" * 401)
    assert not is_answered and "401" in message and "400" in message


def test_an_answer_may_be_as_long_as_the_operator_says(limited):
    assert generated(limited, max_new_tokens=256)[0]
    is_answered, message = generated(limited, max_new_tokens=257)
    assert not is_answered and "max_new_tokens" in message and "256" in message and "257" in message


def talked(attack: Attack, length: int) -> str:
    """What a race says whose conversation and prompt have so many characters; "" if it is run."""
    session = f"talk{length}"
    answer = "y" * (length - len(KNOWN[0]) - 5)
    attack.talk(session, [{"role": "user", "content": "x" * 5}, {"role": "assistant", "content": answer}])
    one = attack.page.named("compete")
    call = {"data": [KNOWN[0], None, [], "probability", "", None, None, None], "fn_index": one["id"]}
    sent = body(call | {"session_hash": session})
    kind, heard = {"content-type": "application/json"}, []
    event = attack.client.post(f"{API}/queue/join?", content=sent, headers=kind).json()["event_id"]
    with attack.client.stream("GET", f"{API}/queue/data?session_hash={session}") as stream:
        for line in stream.iter_lines():
            message = json.loads(line[6:]) if line.startswith("data: ") else {"msg": ""}
            heard += [message["log"]] if message["msg"] == "log" else []
            if message["msg"] == "process_completed" and message["event_id"] == event:
                return "".join(heard)
    raise AssertionError("the race has no end")


def test_a_conversation_counts_with_its_prompt(limited):
    assert talked(limited, 400) == ""
    message = talked(limited, 401)
    assert "401" in message and "400" in message


def shown(attack: Attack, text: str) -> str:
    """What is said of a record that is to be drawn."""
    one = attack.page.named("show_pass")
    call = {"data": [False], "fn_index": one["id"], "session_hash": "shows"}
    event = {"event_data": {"record": text, "number": 1}}
    _, fault, answer = attack.answered(Case("known", f"{API}/run/predict", body(call | event), "shows"))
    assert fault is None and "data" in answer, answer
    [drawn] = [value for value in answer["data"] if isinstance(value, str) and value.startswith("{")]
    return json.loads(drawn).get("trouble", "")


def test_a_record_may_be_as_large_as_the_operator_says(limited):
    line, most = records.written(records.GOOD), 1 << 20
    small = shown(limited, line)
    assert shown(limited, line + " " * (most - len(line))) == small
    message = shown(limited, line + " " * (most - len(line) + 1))
    assert message != small and "1 MiB" in message


def test_a_request_that_is_larger_than_any_record_is_refused_unread(limited):
    most = 4 << 20
    for size, status in ((most, 422), (most + 1, 413)):
        sent = b'"' + b"x" * (size - 2) + b'"'
        headers = {"content-type": "application/json"}
        response = limited.client.post(f"{API}/run/predict", content=sent, headers=headers)
        assert response.status_code == status
    assert "4 MiB" in response.json()["error"]
    parts = (b"x" * (1 << 20) for _ in range(6))  # without its length
    response = limited.client.post(f"{API}/run/predict", content=parts, headers=headers)
    assert response.status_code in (400, 413)


@pytest.mark.full
def test_a_bad_limit_is_one_line_at_the_start(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_RACES", "many")
    ended = subprocess.run([sys.executable, "app.py"], cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 2 and ended.stderr.count("\n") == 1
    assert "MARS_DEMO_RACES" in ended.stderr and "many" in ended.stderr
