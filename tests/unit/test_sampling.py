"""Sampling: the distribution of tokens, and its equality in every mode."""

import math
from collections import Counter

import pytest
import torch
from draft_models import truncated
from greedy import check_same_passes, check_tokens
from scipy.stats import chisquare

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling, gumbel
from mars_demo.serving.decode_batch import decode_batch

PROMPTS = ["How many apples?", "sort 3, 1, 2", "Write a note to Sam.\nThanks!"]


def exact(logits: torch.Tensor, temperature: float, top_p: float, top_k: int) -> torch.Tensor:
    """Return the distribution by definition, token by token."""
    probabilities = (logits.double() / temperature).softmax(-1)
    order = probabilities.argsort(descending=True).tolist()
    candidates = order[: top_k or len(order)]
    total, nucleus = 0.0, []
    mass = sum(probabilities[token] for token in candidates)
    for token in candidates:
        if total / mass >= top_p and nucleus:
            break
        nucleus.append(token)
        total += probabilities[token]
    result = torch.zeros_like(probabilities)
    result[nucleus] = probabilities[nucleus]
    return result / result.sum()


# temperature, top_p and top_k
SETTINGS = [(1.0, 1.0, 0), (0.5, 1.0, 0), (2.0, 0.8, 0), (1.0, 0.9, 5), (1.0, 1.0, 1)]


def test_samples_have_the_exact_distribution():
    """Compare 5,000 samples for each setting; the noise of a position serves all settings."""
    logits = torch.randn(12, generator=torch.Generator().manual_seed(3)) * 1.5
    counts = {settings: Counter() for settings in SETTINGS}
    for first in range(0, 5_000, 200):
        positions = range(first, first + 200)
        for settings, counted in counts.items():
            chosen = Sampling(*settings, seed=11).choose(logits.expand(200, -1), positions)
            counted.update(chosen.tolist())
    for settings, counted in counts.items():
        expected = exact(logits, *settings)
        possible = expected.nonzero().flatten().tolist()
        assert set(counted) <= set(possible)
        seen = [counted[token] for token in possible]
        assert len(seen) == 1 or chisquare(seen, (5_000 * expected[possible]).tolist()).pvalue > 1e-3, (
            settings
        )


def test_noise_depends_only_on_seed_position_and_token():
    """Compare with the same hash in Python integers."""
    size, seed = 50_000, 7 + (5 << 40)
    noise, on_device = (gumbel(seed, 3, size, torch.device(name)) for name in ("cpu", "meta"))
    assert on_device.device.type == "meta"  # created on the device, not copied to it

    def mixed(bits: int) -> int:
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            bits = ((bits ^ bits >> shift) * factor) % 2**32
        return bits ^ bits >> 16

    for token in (0, 1, 255, size - 1):
        bits = token
        for parts in ((seed % 2**32, seed >> 32, 3), (3, seed >> 32, seed % 2**32)):
            key = 0x9E3779B9
            for part in parts:
                key = mixed(key ^ part)
            bits = mixed(bits ^ key)
        assert noise[token].item() == pytest.approx(-math.log(-math.log1p(-(bits + 0.5) / 2**32)), abs=1e-4)
    # Quantiles of a standard Gumbel distribution, within four standard deviations of the sample.
    for share in (0.01, 0.1, 0.5, 0.9, 0.99):
        below = (noise < -math.log(-math.log(share))).double().mean().item()
        assert abs(below - share) < 4 * (share * (1 - share) / size) ** 0.5


@pytest.fixture(scope="module")
def ar_answers(checkpoint):
    """Return the AR answers by seed and prompt."""
    return {
        (seed, prompt): decode(
            checkpoint, prompt, Request("ar", sampling=Sampling(0.8, 0.95, seed=seed), max_new_tokens=20)
        ).finish()
        for seed in range(3)
        for prompt in PROMPTS
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"mode": "mars", "tau": 1.0},
        {"mode": "lossless", "linear": False, "window": 5},
        {"mode": "lossless", "linear": True},
        {"mode": "jacobi"},
        {"mode": "speculative", "tau": 1.0},
    ],
    ids=str,
)
def test_a_seed_gives_the_answer_of_ar_in_every_mode(checkpoint, ar_answers, settings):
    if settings["mode"] == "speculative":
        settings = settings | {"draft": truncated(checkpoint, 2)}
    for (seed, prompt), ar in ar_answers.items():
        sampling = Sampling(0.8, 0.95, seed=seed)
        run = decode(checkpoint, prompt, Request(sampling=sampling, max_new_tokens=20, **settings))
        check_tokens(checkpoint, run.finish(), ar.token_ids)
    assert len({tuple(ar.token_ids) for ar in ar_answers.values()}) == len(ar_answers)


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless", "jacobi"])
def test_sequences_of_a_batch_sample_the_tokens_they_sample_alone(checkpoint, mode):
    sampling = Sampling(0.9, top_k=50, seed=5)
    request = Request(mode, tau=0.2, sampling=sampling, max_new_tokens=16)
    batch = decode_batch(checkpoint, PROMPTS, request, size=3).finish()
    for prompt, run in zip(PROMPTS, batch.runs):
        check_same_passes(run, decode(checkpoint, prompt, request).finish())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": 0}, r"temperature.*\b0\b"),
        ({"temperature": float("nan")}, "temperature.*nan"),
        ({"top_p": 0}, r"top_p.*\b0\b"),
        ({"top_p": 1.1}, r"top_p.*1\.1"),
        ({"top_k": -1}, "top_k.*-1"),
    ],
)
def test_bad_settings_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)
