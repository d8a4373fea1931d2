"""The plugin for vLLM, where it needs no vLLM: arguments of requests, acceptance and τ by load."""

import ast
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from mars_demo import vllm
from mars_demo.core.noise import gumbel_noise
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.export.vllm_plugin import flags
from mars_demo.vllm.accepting import NONE, accept, masks_after
from mars_demo.vllm.arguments import Arguments, Server, arguments_of, read_arguments

SERVER = Server(mask_id=2, masks=8, drafts=16, slots=8)
PLAIN = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "bad_words": None,
    "min_tokens": 0,
    "allowed_token_ids": None,
    "thinking_token_budget": None,
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
        ({"tau": "auto"}, Arguments(1.0, 0, paced=True)),
        ({"tau": "auto", "masks": 8}, Arguments(1.0, 0)),
        ({"tau": "lossless", "masks": 3}, Arguments(None, 3)),
        ({"masks": 0}, Arguments(None, 0)),
        ({"tau": 0.5, "criterion": "margin"}, Arguments(0.5, 8, "margin")),
    ],
)
def test_arguments_are_read(extra, expected):
    assert read_arguments(extra, SERVER) == expected


def test_a_server_has_a_tau_for_requests_that_name_none():
    for tau, expected in ((0.8, 0.8), ("auto", 1.0), ("lossless", None)):
        server = SERVER._replace(tau=tau)
        assert read_arguments({}, server).tau == expected
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
    assert arguments_of(SimpleNamespace(**PLAIN | {"extra_args": extra}), SERVER, 1).masks == 0


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
    assert arguments_of(plain, SERVER, 1) == Arguments(None, 8, paced=True)
    setattr(plain, parameter, value)
    assert arguments_of(plain, SERVER, 1).masks == 0


def accepts(*requests) -> list[tuple[list[int], list[int]]]:
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
    parts = torch.stack(logits), torch.tensor(given), torch.tensor(own), torch.tensor(ends)
    both = accept(*parts, [one[0] for one in requests], SERVER)
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
    assert accepts((Arguments(1.0, 0), [], 1, [6, 7], [0.0, 1.0])) == [([6], [])]


def test_truncation_does_not_make_uncertain_slots_pass():
    """Sample with top-k = 1, where a token is certain: its score is still the model's probability."""
    logits = torch.randn(5, 40, generator=torch.Generator().manual_seed(0)) / 10
    kept = logits.masked_fill(logits < logits.amax(-1, keepdim=True), -torch.inf)
    own = kept.argmax(-1)  # as all samples are
    given, ends = torch.tensor([0, *[SERVER.mask_id] * 4]), torch.tensor([5])
    _, drafts = accept(logits, given, own, ends, [Arguments(0.95, 4)], SERVER)
    assert drafts.tolist() == [[NONE] * 17]
    _, drafts = accept(logits * 5000, given, own, ends, [Arguments(0.95, 4)], SERVER)
    assert drafts.tolist() == [[*own[1:].tolist(), *[NONE] * 13]]


def test_a_seed_has_the_noise_of_the_decoder_in_any_batch():
    logits = torch.randn(5, 50, generator=torch.Generator().manual_seed(1))
    seeds, positions = torch.tensor([9, 9, -4, 2**62, 9]), torch.tensor([0, 1, 1, 7, 100])
    expected = [
        int(Sampling(seed=seed).choose(row[None], [position])[0])
        for row, seed, position in zip(logits, seeds.tolist(), positions.tolist())
    ]
    assert (logits + gumbel_noise(seeds, positions, 50)).argmax(-1).tolist() == expected


def test_the_masks_of_a_paced_request_follow_its_drafts_and_the_load():
    def masks(drafts: int, length: int = 1, requests: int = 1, shared: int = 64, **more) -> int:
        arguments = Arguments(None, 8, paced=True)._replace(**more)
        return masks_after(drafts, length, arguments, SERVER._replace(shared=shared), requests)

    assert [masks(drafts) for drafts in (1, 2, 3, 4, 9)] == [3, 5, 7, 8, 8]
    assert [masks(9, requests=requests, shared=16) for requests in (1, 4, 8, 32)] == [8, 4, 2, 1]
    assert [masks(0, length) for length in (1, 2, 3)] == [1, 1, 1]  # alone, there is always one
    # Of eight requests without drafts, each has one mask in three forwards.
    assert [masks(0, length, 8) for length in range(1, 8)] == [0, 0, 1, 0, 0, 1, 0]
    assert masks(0, length=0, requests=8) == 8  # after a prompt
    assert masks(0, requests=8, paced=False) == 8
    assert masks(9, masks=0) == 0


def test_tau_falls_with_the_load():
    def of(tau: float | str, requests: int, bounds: tuple[float, float] = (0.8, 1.0)) -> Arguments:
        return read_arguments({"tau": tau}, SERVER._replace(slots=9, bounds=bounds), requests)

    assert [of("auto", requests).tau for requests in (1, 5, 9, 25)] == pytest.approx([1.0, 0.9, 0.8, 0.8])
    assert of("auto", 5, (0.4, 0.6)).tau == pytest.approx(0.5)
    assert of(0.7, 5).tau == 0.7
    assert of("lossless", 5).tau is None
    # Masks are sent only where τ admits a slot.
    assert [of("auto", requests).masks for requests in (1, 2, 9)] == [0, 8, 8]


def test_the_flags_name_what_the_plugin_has():
    named = flags(masks=8)
    model = json.loads(named["speculative-config"])["model"]
    for path in (model, *(named[flag] for flag in ("worker-cls", "scheduler-cls", "middleware"))):
        *package, module, name = path.split(".")
        tree = ast.parse((Path(vllm.__file__).parent / f"{module}.py").read_text("utf-8"))
        assert package == ["mars_demo", "vllm"]
        assert name in {getattr(node, "name", None) for node in tree.body}, path


@pytest.mark.parametrize("tau, expected", [(None, None), (0.7, 0.7), ([0.5, 0.9], 0.5)])
def test_a_server_gets_the_tau_of_its_flags(tau, expected):
    own = json.loads(flags(masks=8, tau=tau).get("additional-config", '{"mars": {}}'))["mars"]
    assert read_arguments({}, SERVER._replace(**own), requests=SERVER.slots).tau == expected
