"""The plugin for vLLM, where it needs no vLLM: arguments of requests, acceptance and τ by load."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mars_demo import vllm
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.export.vllm_plugin import flags
from mars_demo.vllm.accepting import NONE, accept, choose, next_masks
from mars_demo.vllm.arguments import RANGE, Arguments, Server, arguments_of, read_arguments, room

SERVER = Server(mask_id=2, masks=8, drafts=16, slots=8)
PLAIN = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "bad_words": None,
    "min_tokens": 0,
    "allowed_token_ids": None,
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
        ({"tau": "auto"}, Arguments(RANGE, 8, paced=True)),
        ({"tau": "auto", "masks": 8}, Arguments(RANGE, 8)),
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
    ],
)
def test_parameters_that_act_token_by_token_need_forwards_without_masks(parameter, value):
    plain = SimpleNamespace(**PLAIN)
    assert arguments_of(plain, SERVER) == Arguments(None, 8, paced=True)
    setattr(plain, parameter, value)
    assert arguments_of(plain, SERVER).masks == 0


def accepts(*requests, slots=8) -> list[tuple[list[int], list[int]]]:
    """Return what `accept` says of requests: settings, drafts, masks, own tokens, their probabilities."""
    given, own, logits, ends = [], [], [], []
    for _, drafts, masks, tokens, shares in requests:
        given += [0, *drafts, *[SERVER.mask_id] * masks]
        own += tokens
        ends.append(len(own))
        for token, share in zip(tokens, shares):
            p = torch.full((10,), (1 - share) / 9)
            p[token] = share
            logits.append(p.log())
    assert len(given) == len(own) == len(logits)
    settings, width = [one[0] for one in requests], max(len(one[3]) for one in requests)
    parts = torch.stack(logits), torch.tensor(given), torch.tensor(own), torch.tensor(ends), settings
    both = accept(*parts, SERVER._replace(slots=slots), width)
    return [tuple([i for i in row.tolist() if i != NONE] for row in rows) for rows in zip(*both)]


def test_a_lossless_forward_keeps_what_the_model_itself_would_choose():
    lossless, half = Arguments(None, 3), [0.5] * 6
    # Drafts 5 and 6, then three masks: the first draft is right, the second one is not.
    assert accepts((lossless, [5, 6], 3, [5, 7, 8, 9, 9, 9], half)) == [([5, 7], [])]
    assert accepts((lossless, [5, 6], 3, [5, 6, 8, 1, 3, 4], half)) == [([5, 6, 8], [1, 3, 4])]
    assert accepts((lossless, [], 2, [4, 8, 9], half[:3])) == [([4], [8, 9])]
    assert accepts((lossless, [], 0, [4], [0.2])) == [([4], [])]
    # What a draft must be worth where masks are paced.
    paced, shares = Arguments(None, 4, paced=True), [0.2, 0.9, 0.6, 0.4, 0.9]
    assert accepts((paced, [], 4, [1, 2, 3, 4, 5], shares)) == [([1], [2, 3])]


def test_a_forward_with_tau_accepts_its_drafts_and_drafts_what_scores_enough():
    own, shares = [6, 7, 1, 2, 3, 4], [0.2, 0.15, 0.9, 0.8, 0.7, 0.9]
    with_tau = [Arguments(0.75, masks) for masks in (4, 1)]
    first, second = ((one, [5], 4, own, shares) for one in with_tau)
    assert accepts(first, second) == [([5, 7], [1, 2]), ([5, 7], [1])]
    assert accepts((Arguments(1.0, 1), [], 1, [6, 7], [0.0, 1.0])) == [([6], [])]
    # By load: at τ = 1 nothing more, and in a full batch what reaches the lowest τ.
    by_load, empty = (Arguments((0.8, 1.0), 2), [], 2, [6, 7, 8], [0.9, 0.9, 0.85]), Arguments(None, 0)
    assert accepts(by_load) == [([6], [])]
    assert accepts(by_load, (empty, [], 0, [4], [0.5]), slots=2) == [([6], [7, 8]), ([4], [])]


def test_truncation_does_not_make_uncertain_slots_pass():
    """Sample with top-k = 1, where a token is certain: its score is still the model's probability."""
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(0)) / 10
    kept = logits.masked_fill(logits < logits.amax(-1, keepdim=True), -torch.inf)
    own = choose(kept, torch.ones(5), torch.full((5,), 3), torch.arange(5))
    assert own.tolist() == logits.argmax(-1).tolist()
    given, ends = torch.tensor([0, *[SERVER.mask_id] * 4]), torch.tensor([5])
    _, drafts = accept(logits, given, own, ends, [Arguments(0.95, 4)], SERVER, 5)
    assert drafts.tolist() == [[NONE] * 5]
    _, drafts = accept(logits * 5000, given, own, ends, [Arguments(0.95, 4)], SERVER, 5)
    assert drafts.tolist() == [[*own[1:].tolist(), NONE]]


def test_a_seed_chooses_the_tokens_of_the_decoder_in_any_batch():
    logits = torch.randn(6, 50, generator=torch.Generator().manual_seed(1))
    seeds, positions = torch.tensor([9, 9, -4, 2**62, 9, 9]), torch.tensor([0, 1, 1, 7, 100, 1])
    temperature = torch.tensor([1.0, 1, 1, 1, 1, 0])
    expected = [
        int(Sampling(seed=seed).choose(row[None], [position])[0])
        for row, seed, position in zip(logits, seeds.tolist(), positions.tolist())
    ]
    chosen = choose(logits, temperature, seeds, positions).tolist()
    assert chosen == [*expected[:5], int(logits[5].argmax())]


def test_the_masks_of_a_lossless_request_follow_its_drafts_and_the_load():
    assert [next_masks(drafts, 0, 8, 8)[0] for drafts in (1, 2, 3, 4, 9)] == [3, 5, 7, 8, 8]
    assert next_masks(0, 0, 1, 8) == (1, 0)  # alone, there is always one
    waits, waited = [], 0
    for _ in range(6):  # eight requests: one mask in three forwards
        masks, waited = next_masks(0, waited, 8, 8)
        waits.append(masks)
    assert waits == [0, 0, 1, 0, 0, 1]
    assert next_masks(0, 9, 4, 0) == (0, 0)


def test_room_is_what_fits_after_the_next_token():
    params = SimpleNamespace(max_tokens=5)
    assert [room(params, count) for count in (0, 3, 4, 5)] == [4, 1, 0, 0]
    assert room(SimpleNamespace(max_tokens=None), 10**6) > 10**6


def test_tau_falls_with_the_load():
    by_load = Arguments((0.8, 1.0), 8).threshold
    assert [by_load(load) for load in (0, 0.5, 1, 3)] == pytest.approx([1.0, 0.9, 0.8, 0.8])
    assert Arguments(0.7, 8).threshold(0.5) == 0.7
    assert Arguments(None, 8).threshold(0.5) is None
    # Masks are sent only where τ admits a slot.
    assert [Arguments(RANGE, 8).most(load) for load in (0, 0.1, 1)] == [0, 8, 8]
    assert [Arguments(tau, 8).most(0) for tau in (0.5, None)] == [8, 8]


def test_the_flags_name_what_the_plugin_has():
    named = flags(masks=8)
    model = json.loads(named["speculative-config"])["model"]
    for path in (model, *(named[flag] for flag in ("worker-cls", "scheduler-cls", "middleware"))):
        *package, module, name = path.split(".")
        tree = ast.parse((Path(vllm.__file__).parent / f"{module}.py").read_text("utf-8"))
        assert package == ["mars_demo", "vllm"]
        assert name in {getattr(node, "name", None) for node in tree.body}, path
