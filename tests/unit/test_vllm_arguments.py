"""The plugin for vLLM, where it needs no vLLM: arguments of requests, acceptance and τ by load."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from mars_demo import vllm
from mars_demo.models.export.vllm_plugin import flags
from mars_demo.vllm.accepting import accept, next_drafts
from mars_demo.vllm.arguments import RANGE, Arguments, Server, arguments_of, read_arguments, room

SERVER = Server(mask_id=2, masks=8, drafts=16, slots=8)
PLAIN = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "bad_words": None,
    "min_tokens": 0,
    "allowed_token_ids": None,
    "structured_outputs": None,
    "extra_args": None,
}


@pytest.mark.parametrize(
    "extra, expected",
    [
        (None, Arguments(None, 8, paced=True)),
        ({"kept": "for others"}, Arguments(None, 8, paced=True)),
        ({"tau": 0.95}, Arguments(0.95, 8)),
        ({"tau": 0}, Arguments(0, 8)),
        ({"tau": 1}, Arguments(1, 0)),
        ({"tau": "auto"}, Arguments(RANGE, 8)),
        ({"tau": "lossless", "masks": 3}, Arguments(None, 3)),
        ({"masks": 0}, Arguments(None, 0)),
        ({"tau": 0.5, "criterion": "margin"}, Arguments(0.5, 8, "margin")),
    ],
)
def test_arguments_are_read(extra, expected):
    assert read_arguments(extra, SERVER) == expected


@pytest.mark.parametrize("tau", [0.8, [0.5, 0.9], "auto"])
def test_a_server_has_a_tau_for_requests_that_name_none(tau):
    server = SERVER._replace(tau=tau)
    expected = {"auto": RANGE}.get(tau, tau) if isinstance(tau, str) else tau
    assert read_arguments({}, server).tau == (tuple(expected) if isinstance(expected, list) else expected)
    assert read_arguments({"tau": "auto"}, server).tau == ((0.5, 0.9) if isinstance(tau, list) else RANGE)
    assert read_arguments({"tau": 0.7}, server).tau == 0.7
    assert read_arguments({"tau": "lossless"}, server).tau is None


@pytest.mark.parametrize(
    "extra",
    [
        *({"tau": tau} for tau in (-0.1, 1.1, float("nan"), True, None, "0.5", [0.1, 0.2], {})),
        *({"masks": masks} for masks in (-1, 9, 2.0, True, None, "3", [])),
        *({"criterion": criterion} for criterion in ("nothing", None, 1, ["margin"])),
    ],
)
def test_wrong_arguments_are_named_in_a_sentence(extra):
    (name,) = extra
    with pytest.raises(ValueError, match=rf"^{name} must be .*not .*\.$"):
        read_arguments(extra, SERVER)
    assert arguments_of(SimpleNamespace(**PLAIN | {"extra_args": extra}), SERVER).masks == 0


@pytest.mark.parametrize(
    "parameter, value",
    [
        ("repetition_penalty", 1.1),
        ("presence_penalty", 0.5),
        ("frequency_penalty", -0.5),
        ("bad_words", ["no"]),
        ("min_tokens", 3),
        ("allowed_token_ids", [5]),
        ("structured_outputs", object()),
    ],
)
def test_parameters_that_act_token_by_token_need_forwards_without_masks(parameter, value):
    plain = SimpleNamespace(**PLAIN)
    assert arguments_of(plain, SERVER) == Arguments(None, 8, paced=True)
    setattr(plain, parameter, value)
    assert arguments_of(plain, SERVER).masks == 0


def test_a_lossless_forward_keeps_what_the_model_itself_would_choose():
    # Drafts 5 and 6, then three masks: the first draft is right, the second one is not.
    assert accept([5, 6], [5, 7, 8, 9, 9, 9], [0.0] * 6, None, [5, 6], 3) == ([5, 7], [])
    assert accept([5, 6], [5, 6, 8, 1, 3, 4], [0.0] * 6, None, [5, 6], 3) == ([5, 6, 8], [1, 3, 4])
    assert accept([], [4, 8, 9], [0.0] * 3, None, [], 2) == ([4], [8, 9])
    assert accept([], [4], [0.0], None, [], 0) == ([4], [])


def test_a_forward_with_tau_accepts_its_drafts_and_drafts_what_scores_enough():
    scores = [0.2, 0.1, 0.9, 0.8, 0.7, 0.9]
    assert accept([5], [6, 7, 1, 2, 3, 4], scores, 0.75, [5], 4) == ([5, 7], [1, 2])
    assert accept([5], [6, 7, 1, 2, 3, 4], scores, 0.75, [5], 1) == ([5, 7], [1])
    assert accept([], [6, 7], [0.0, 1.0], 1, [], 1) == ([6], [])


def test_accepted_drafts_that_vllm_dropped_are_given_again():
    assert accept([], [9, 9], [1.0, 1.0], 0.5, [5, 6], 1) == ([5], [6])
    assert accept([5], [9, 9, 9], [1.0] * 3, 0.5, [5, 6], 1) == ([5], [6])
    assert accept([], [9, 8], [1.0, 1.0], None, [5, 6], 1) == ([9], [8])  # lossless drafts are only guesses


def test_a_lossless_draft_must_be_worth_its_verification():
    scores = [0.0, 0.9, 0.6, 0.4, 0.9]
    assert accept([], [1, 2, 3, 4, 5], scores, None, [], 4, 0.5) == ([1], [2, 3])
    assert accept([], [1, 2, 3, 4, 5], scores, None, [], 4) == ([1], [2, 3, 4, 5])


def test_the_masks_of_a_lossless_request_follow_its_drafts_and_the_load():
    assert [next_drafts(drafts, 0, 8, 8)[0] for drafts in (1, 2, 3, 4, 9)] == [3, 5, 7, 8, 8]
    assert next_drafts(0, 0, 1, 8) == (1, 0)  # alone, there is always one
    waits, waited = [], 0
    for _ in range(6):  # eight requests: one mask in three forwards
        masks, waited = next_drafts(0, waited, 8, 8)
        waits.append(masks)
    assert waits == [0, 0, 1, 0, 0, 1]
    assert next_drafts(0, 9, 4, 0) == (0, 0)


def test_room_is_what_fits_after_the_next_token():
    params = SimpleNamespace(max_tokens=5)
    assert [room(params, count) for count in (0, 3, 4, 5)] == [4, 1, 0, 0]
    assert room(SimpleNamespace(max_tokens=None), 10**6) > 10**6


def test_tau_falls_with_the_load():
    by_load = Arguments((0.8, 1.0), 8).threshold
    assert [by_load(load) for load in (0, 0.5, 1, 3)] == pytest.approx([1.0, 0.9, 0.8, 0.8])
    assert Arguments(0.7, 8).threshold(0.5) == 0.7
    assert Arguments(None, 8).threshold(0.5) is None


def test_the_flags_name_what_the_plugin_has():
    named = flags("mars_vllm", masks=8)
    model = json.loads(named["speculative-config"])["model"]
    for path in (model, *(named[flag] for flag in ("worker-cls", "scheduler-cls", "middleware"))):
        package, module, name = path.split(".")
        tree = ast.parse((Path(vllm.__file__).parent / f"{module}.py").read_text("utf-8"))
        assert package == "mars_vllm" and name in {getattr(node, "name", None) for node in tree.body}, path
