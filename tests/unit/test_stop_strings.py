"""Answers that end with a stop string, in every mode and in batches."""

from dataclasses import replace

import pytest
from greedy import check_same_passes

from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.messages import Encoded
from mars_demo.serving.decode_batch import finished

PROMPTS = [example.prompt for example in tasks.mixed(1)]
STOPS = [(". ",), ("1", "the"), ("ing ", "e "), ("nowhere",), ("x" * 40, "\n")]


def expected(checkpoint, ids: list[int], stops: tuple[str, ...]) -> tuple[list[int], str | None]:
    """Return the leading ids whose text is the first to hold a stop string, decoding each length anew."""
    for count in range(1, len(ids) + 1):
        text = checkpoint.tokenizer.decode(ids[:count], skip_special_tokens=True)
        if any(stop in text for stop in stops) and ids[count - 1] not in checkpoint.end_ids:
            return ids[:count], "stop string"
    return ids, None


@pytest.mark.parametrize(
    ("mode", "tau", "stops"),
    [
        ("ar", 1.0, 0),
        ("ar", 1.0, 2),
        ("mars", 0.7, 1),
        ("mars", 0.7, 2),
        ("mars", 0.7, 3),
        ("lossless", 1.0, 0),
        ("lossless", 1.0, 4),
        ("jacobi", 1.0, 1),
        ("jacobi", 1.0, 2),
    ],
)
def test_an_answer_ends_with_the_token_that_completes_one(mars_tiny, mode, tau, stops):
    stops = STOPS[stops]
    for prompt in PROMPTS[3:6]:
        whole = decode(mars_tiny, prompt, Request(mode, tau, max_new_tokens=60)).finish()
        request = Request(mode, tau, max_new_tokens=60, stop_strings=stops)
        run = decode(mars_tiny, prompt, request).finish()
        ids, stop = expected(mars_tiny, whole.token_ids, stops)
        assert (run.token_ids, run.stop) == (ids, stop or whole.stop)  # forwards of the same shapes
        assert run.forwards <= whole.forwards
        assert run.text == mars_tiny.tokenizer.decode(ids, skip_special_tokens=True)


def test_a_special_token_ends_an_answer_by_its_name(mars_tiny):
    whole = decode(mars_tiny, PROMPTS[0], Request("mars", max_new_tokens=80)).finish()
    assert whole.stop == "eos"
    endless = replace(mars_tiny, end_ids=frozenset())
    request = Request("mars", max_new_tokens=80, stop_strings=("<|end|>",))
    run = decode(endless, PROMPTS[0], request).finish()
    assert (run.token_ids, run.stop) == (whole.token_ids, "stop string")
    assert decode(endless, PROMPTS[0], replace(request, stop_strings=())).finish().stop == "length"


def test_an_empty_stop_string_is_refused():
    with pytest.raises(ValueError, match="(?i)stop.*empty"):
        Request(stop_strings=("a", ""))


def test_finished_answers_are_those_of_single_runs(mars_tiny):
    requests = [
        Request(
            "mars", 0.9, max_new_tokens=20 + 10 * (number % 4), stop_strings=(". ",) if number % 2 else ()
        )
        for number in range(len(PROMPTS))
    ]
    alone = [decode(mars_tiny, *pair).finish() for pair in zip(PROMPTS, requests)]
    found = dict(finished(mars_tiny, list(zip(PROMPTS, requests)), size=5))
    assert sorted(found) == list(range(len(PROMPTS)))
    for number, run in enumerate(alone):
        check_same_passes(found[number], run)
    assert list(finished(mars_tiny, [], size=5)) == []


def test_a_prompt_may_be_ids(mars_tiny):
    request = Request("mars", max_new_tokens=30)
    asked = [
        (Encoded(encode_prompt(mars_tiny.tokenizer, prompt), prompt), request) for prompt in PROMPTS[:3]
    ]
    for number, run in finished(mars_tiny, asked, size=2):
        check_same_passes(run, decode(mars_tiny, PROMPTS[number], request).finish())
        assert run.settings.raw and run.settings.prompt == PROMPTS[number]
