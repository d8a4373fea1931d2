"""Hundreds of bad inputs against the app as a process of its own, and each limit from both sides."""

import json
import os
import subprocess
import sys

import pytest

from benchmarks.hostile import records
from benchmarks.hostile.__main__ import STAYS, TALK, attacked
from benchmarks.hostile.attack import KNOWN, Attack, cases
from benchmarks.hostile.requests import API, Case, body
from benchmarks.hostile.server import ROOT, SECRET, Server
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request

CASES = 1000
LIMITED = {"MARS_DEMO_PROMPT": "400", "MARS_DEMO_ANSWER": "256", "MARS_DEMO_RECORD": "1"}


@pytest.fixture(scope="module")
def attack(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("hostile") / "app") as server:
        yield Attack(server)


@pytest.mark.slow
def test_a_thousand_bad_inputs_get_values_or_sentences_and_hurt_nobody(attack, mars_tiny, capsys):
    assert attacked(attack, seed=20, count=CASES) == []
    assert attack.messages_of(STAYS) == TALK
    prompt, tokens = KNOWN
    own = decode(mars_tiny, prompt, Request("mars", 0.9, max_new_tokens=tokens)).finish()
    assert attack.known_answer() == own.text
    kinds = {case.kind for case in cases(20, CASES, attack.page)}
    assert len(kinds) > 10


def test_the_cases_of_a_seed_are_always_the_same(attack):
    first, again, other = (list(map(str, cases(seed, 50, attack.page))) for seed in (1, 1, 2))
    assert first == again != other


def test_it_is_noticed_what_an_answer_must_not_hold(attack):
    for text in ("Traceback (most recent call last):", "TypeError: 'x'", f"{SECRET}", "root:x:0:0"):
        assert attack.leak(text)
    assert not attack.leak('{"error":"tau must be a number from 0 to 1, not 2."}')
    (attack.server.folder / "others" / "new.txt").touch()
    [touched] = attack.server.touched()
    assert touched.endswith("others/new.txt")
    (attack.server.folder / "others" / "new.txt").unlink()


# ------------------------------------------------------------------------------------------ limits


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """An app whose owner has set small limits."""
    with Server(tmp_path_factory.mktemp("limited") / "app", **LIMITED) as server:
        yield Attack(server)


def generated(attack: Attack, **asked) -> tuple[bool, str]:
    """Whether it is answered, and the record or the sentence."""
    given = {"prompt": "hello", "model": "mars-tiny", "mode": "ar", "tau": 1, "window": None} | asked
    data = [*given.values(), 1] if "max_new_tokens" not in asked else [*given.values()]
    _, fault, answer = attack.answered(
        Case("known", f"{API}/call/generate", body({"data": [*data, "probability"]}), queued=True)
    )
    assert fault is None
    output = answer["output"]
    return answer["success"], output[0] if answer["success"] else output["error"]


def test_a_prompt_may_be_as_long_as_the_owner_says(limited):
    assert generated(limited, prompt="abcd " * 80)[0]
    said = "The prompt and its conversation have 401 characters; at most 400 are read here."
    assert generated(limited, prompt="a" * 401) == (False, said)


def test_an_answer_may_be_as_long_as_the_owner_says(limited):
    assert generated(limited, max_new_tokens=256)[0]
    refused, said = generated(limited, max_new_tokens=257)
    assert not refused and said == "max_new_tokens must be a whole number from 1 to 256, not 257."


def talked(attack: Attack, length: int) -> str:
    """What a race says whose conversation and prompt have so many characters; "" if it is run."""
    session = f"talk{length}"
    answer = "y" * (length - len(KNOWN[0]) - 5)
    attack.talk(session, [{"role": "user", "content": "x" * 5}, {"role": "assistant", "content": answer}])
    one = attack.page.named("compete")
    asked = {"data": [KNOWN[0], None, [], "probability", "", None, None, None], "fn_index": one["id"]}
    sent = body(asked | {"session_hash": session})
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
    said = "The prompt and its conversation have 401 characters; at most 400 are read here."
    assert talked(limited, 401) == said


def shown(attack: Attack, text: str) -> str:
    """What is said of a record that is to be drawn."""
    one = attack.page.named("show_pass")
    asked = {"data": [False], "fn_index": one["id"], "session_hash": "shows"}
    event = {"event_data": {"record": text, "number": 1}}
    _, fault, answer = attack.answered(Case("known", f"{API}/run/predict", body(asked | event), "shows"))
    assert fault is None and "data" in answer, answer
    [drawn] = [value for value in answer["data"] if isinstance(value, str) and value.startswith("{")]
    return json.loads(drawn).get("trouble", "")


def test_a_record_may_be_as_large_as_the_owner_says(limited):
    line, most = records.written(records.GOOD), 1 << 20
    assert "sentence" not in shown(limited, line)
    assert shown(limited, line + " " * (most - len(line))) == shown(limited, line)
    said = shown(limited, line + " " * (most - len(line) + 1))
    assert said == "The record of a run is a text of at most 1 MiB."


def test_a_request_that_is_larger_than_any_record_is_refused_unread(limited):
    most = 4 << 20
    for size, status in ((most, 422), (most + 1, 413)):
        sent = b'"' + b"x" * (size - 2) + b'"'
        headers = {"content-type": "application/json"}
        response = limited.client.post(f"{API}/run/predict", content=sent, headers=headers)
        assert response.status_code == status
    said = "The request is larger than 4 MiB, more than this page ever sends."
    assert response.json()["error"] == said
    parts = (b"x" * (1 << 20) for _ in range(6))  # says nothing of its length
    response = limited.client.post(f"{API}/run/predict", content=parts, headers=headers)
    assert response.status_code in (400, 413)


def test_a_bad_limit_is_one_sentence_at_the_start():
    given = os.environ | {"MARS_DEMO_RACES": "many"}
    ended = subprocess.run([sys.executable, "app.py"], cwd=ROOT, env=given, capture_output=True, text=True)
    assert ended.returncode == 2
    assert ended.stderr == "app.py: MARS_DEMO_RACES must be a whole number from 1 on, not 'many'.\n"
