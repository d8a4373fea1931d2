"""Acceptance criteria against independent formulas, and decoding with each criterion."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import without_cache
from draft_models import truncated

from mars_demo.core.acceptance import CRITERIA, Acceptance, accepted, admits, several
from mars_demo.decoding.decode import decode
from mars_demo.decoding.reading import most_probable
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.chat import encode_prompt

PROMPTS = ["How many apples?", "sort 3, 1, 2", "Write a note to Sam.\nThanks!", "ünïcode 👩‍🚀 שלום"]
EVERY_CRITERION = pytest.mark.parametrize("criterion", CRITERIA)


def scores(criterion: str, logits: torch.Tensor, tokens: list[int] | None = None) -> list[float]:
    """Return the project's scores of `tokens` of [rows, vocabulary] logits, by default of the best ones."""
    chosen = logits.argmax(-1) if tokens is None else torch.tensor(tokens)
    return Acceptance(criterion).scores(logits.softmax(-1), chosen).tolist()


def random_logits(scale: float, rows: int = 40, vocabulary: int = 50) -> torch.Tensor:
    generator = torch.Generator().manual_seed(int(scale * 10))
    return torch.randn(rows, vocabulary, generator=generator) * scale


@EVERY_CRITERION
def test_scores_follow_the_definition_for_any_token(criterion):
    for scale in (0.1, 1.0, 5.0, 1e4):
        logits = random_logits(scale, rows=10)
        for token in range(0, logits.shape[1], 3):
            expected = [without_cache.score(criterion, row, token) for row in logits]
            assert scores(criterion, logits, [token] * len(logits)) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("scored", "tau", "count"),
    [
        ([0.1, 0.9, 0.8, 0.2], 0.5, 3),
        ([0.1, 0.9, 0.8, 0.2], 0.95, 1),
        ([0.1, 0.9, 0.2, 0.9], 0.5, 2),  # slots after a gap do not count
        ([0.1, 0.5, 0.5], 0.5, 3),  # a score equal to τ is accepted
        ([0.0, 0.0, 0.0], 0.0, 3),
        ([1.0, 1.0, 1.0], 1.0, 1),  # a score rounded to 1 is not certain
        ([1.0, 1.0, 1.0], None, 1),
        ([0.0, math.nan, 1.0], 0.0, 1),
    ],
)
def test_slots_are_accepted_from_the_left_and_always_the_first(scored, tau, count):
    assert accepted(scored, tau) == count
    assert all(admits(one, tau) for one in scored[1:count])
    assert count == len(scored) or not admits(scored[count], tau)
    assert several(tau) or count == 1


@pytest.mark.parametrize("name", ["confidence", "Probability", "", None])
def test_unknown_criteria_are_refused_with_the_known_ones(name):
    for made in (Acceptance, Request):
        with pytest.raises(ValueError, match=f"criterion.*{name!r}.*probability, entropy, margin"):
            made(criterion=name)


@pytest.mark.parametrize("tau", [-0.1, 1.0001, 95, math.nan, math.inf])
def test_thresholds_out_of_range_are_refused_with_the_range(tau):
    for refused in (
        lambda: Acceptance(tau=tau),
        lambda: Acceptance(tau=lambda: tau).threshold(),
        lambda: Request(tau=tau),
    ):
        with pytest.raises(ValueError, match=f"τ.*{tau}"):
            refused()


# Decoding with each criterion. A random model is rarely confident; a sharper one sometimes is.


@pytest.fixture(scope="module")
def checkpoint(checkpoint):
    model = copy.deepcopy(checkpoint.model)
    model.get_output_embeddings().weight.data *= 5
    return replace(checkpoint, model=model)


@pytest.mark.parametrize("criterion", ["entropy", "margin"])
def test_mars_accepts_what_the_rule_without_cache_accepts(checkpoint, criterion):
    """Cover all criteria but the probability, which `test_decoding` covers."""
    counts = set()
    for tau, prompt in zip((0.2, 0.4, 0.7, 0.0, 1.0, 0.4), [*PROMPTS, *PROMPTS]):
        request = Request(mode="mars", tau=tau, criterion=criterion, max_new_tokens=24)
        run = decode(checkpoint, prompt, request)
        without_cache.check(run, without_cache.window(checkpoint, prompt, 9, tau, 24, criterion))
        assert run.settings.criterion == criterion
        if 0 < tau < 1:
            counts |= {step.accepted for step in run.passes}
    assert len(counts) >= 4


@pytest.mark.parametrize(
    ("criterion", "tau"),
    [("probability", 0.6), ("entropy", 0.2), ("entropy", 1.0), ("margin", 0.2), ("margin", 0.6)],
)
def test_other_modes_with_a_threshold_use_the_criterion(checkpoint, criterion, tau):
    draft = truncated(checkpoint, 2)
    diffusion = replace(checkpoint, objective="block-diffusion")
    for prompt in PROMPTS[:2]:
        settings = {"tau": tau, "criterion": criterion, "max_new_tokens": 20}
        run = decode(checkpoint, prompt, Request(mode="speculative", draft=draft, window=5, **settings))
        expected = without_cache.speculative(checkpoint, draft, prompt, 5, tau, 20, criterion)
        without_cache.check(run, expected)
        run = decode(diffusion, prompt, Request(mode="block-diffusion", window=8, **settings))
        expected = without_cache.block_diffusion(diffusion, prompt, 8, tau, 20, criterion)
        without_cache.check_blocks(run, expected)


@EVERY_CRITERION
def test_sampled_tokens_are_accepted_by_their_own_scores(checkpoint, criterion):
    """Check each pass against a forward without a cache, with the tokens that the pass sampled."""
    tau, room, counts, others = 0.3, 40, set(), 0
    settings = {"mode": "mars", "tau": tau, "criterion": criterion, "max_new_tokens": room}
    request = Request(**settings, sampling=Sampling(1.2, seed=1))
    for prompt in PROMPTS:
        text, left = encode_prompt(checkpoint.tokenizer, prompt), room
        for step in decode(checkpoint, prompt, request):
            masks = [checkpoint.mask_id] * (len(step.slots) - 1)
            with torch.no_grad():
                logits = checkpoint.model(torch.tensor([text + masks])).logits[0, len(text) - 1 :]
            slots = [
                (slot.id, without_cache.score(criterion, row, slot.id))
                for slot, row in zip(step.slots, logits)
            ]
            assert [slot.score for slot in step.slots] == pytest.approx([s for _, s in slots], abs=1e-3)
            accepted = without_cache.confident(slots, tau)
            assert step.accepted == without_cache.joined(checkpoint, slots, accepted, left)
            others += sum(a != b for (a, _), b in zip(slots, logits.argmax(-1).tolist()))
            text, left = text + [token for token, _ in slots[: step.accepted]], left - step.accepted
            counts.add(step.accepted)
    assert others > 20 and len(counts) >= 3


def test_the_most_probable_tokens_of_a_large_vocabulary_equal_a_sort():
    for vocabulary in (49152, 16384, 20001):
        p = random_logits(3.0, rows=8, vocabulary=vocabulary).softmax(-1)
        p[0, :600] = 0.5  # more equal probabilities than requested tokens
        best = most_probable(p, 5)
        assert (p.gather(-1, best) == p.sort(-1, descending=True).values[:, :5]).all()
        assert all(len(set(row)) == 5 for row in best.tolist())


def test_certain_slots_have_scores_where_a_device_flushes_subnormal_numbers():
    """Flush them on this CPU, as some GPUs do; the logarithm of 0 would be infinite."""
    if torch.set_flush_denormal(True):
        try:
            certain, token = torch.tensor([[1.0, 0.0]]), torch.tensor([0])
            assert [Acceptance(name).scores(certain, token).item() for name in CRITERIA] == [1.0] * 3
        finally:
            torch.set_flush_denormal(False)
