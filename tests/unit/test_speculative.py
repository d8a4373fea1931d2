"""A second model drafts: the tokens are the target's own, whoever drafts."""

from dataclasses import replace

import pytest
import without_cache
from greedy import check_tokens
from random_models import random_model

from benchmarks.speculative import truncated
from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategies.speculative import Drafter
from mars_demo.decoding.trace import Run
from mars_demo.models.checkpoint import wrap
from mars_demo.models.load import load_checkpoint

PROMPTS = ["How many apples?", "sort 3, 1, 2", "Write a note to Sam.\nThanks!", "ünïcode 👩‍🚀 שלום"]


@pytest.fixture(scope="module", params=["llama", "qwen2", "qwen3"])
def target(request, tokenizer):
    return wrap("random", random_model(request.param, tokenizer), tokenizer)


@pytest.mark.parametrize(
    ("layers", "window", "prompt"), [(1, 1, 0), (1, 9, 1), (2, 3, 2), (3, 3, 3), (2, 9, 0)]
)
def test_at_tau_one_the_tokens_are_those_of_ar(target, layers, window, prompt):
    draft, prompt = truncated(target, layers), PROMPTS[prompt]
    expected = decode(target, prompt, Request(mode="ar", max_new_tokens=24)).finish()
    request = Request(mode="speculative", draft=draft, tau=1.0, window=window, max_new_tokens=24)
    run = decode(target, prompt, request).finish()
    check_tokens(target, run, expected.token_ids)


def test_a_draft_with_all_layers_is_always_right(target):
    """At τ = 1 its drafts come from its own window, so only those of one token per forward must hold."""
    plain = wrap("ar", target.model, target.tokenizer)
    ordinary = replace(plain, block_size=None, objective="ar")
    run = decode(
        target, PROMPTS[0], Request(mode="speculative", draft=ordinary, tau=1.0, max_new_tokens=30)
    ).finish()
    assert all(step.verified == step.drafts for step in run.passes[:-1])
    assert run.forwards == 6  # five tokens each
    assert sum(step.draft_forwards for step in run.passes) == 6 * 4


def test_an_ar_target_verifies_what_a_mars_model_drafts(ar_tiny, mars_tiny):
    for name in ("units", "letters", "stories"):
        prompt = tasks.held_out(name, 1)[0].prompt
        expected = decode(ar_tiny, prompt, Request(mode="ar", max_new_tokens=60)).finish()
        run = decode(
            ar_tiny, prompt, Request(mode="speculative", draft=mars_tiny, tau=0.5, max_new_tokens=60)
        ).finish()
        check_tokens(ar_tiny, run, expected.token_ids)
        assert {step.groups for step in run.passes} == {0}


@pytest.mark.parametrize(
    ("window", "tau", "prompt"), [(2, 0.0, 0), (2, 0.05, 1), (5, 0.05, 0), (5, 1.0, 1)]
)
def test_every_pass_is_what_it_is_without_a_cache(target, window, tau, prompt):
    draft, prompt = truncated(target, 2), PROMPTS[prompt]
    settings = {"draft": draft, "tau": tau, "window": window, "max_new_tokens": 24}
    run = decode(target, prompt, Request(mode="speculative", **settings))
    without_cache.check(run, without_cache.speculative(target, draft, prompt, window, tau, 24))


def test_a_mars_target_goes_on_after_the_drafts_while_it_is_confident(mars_tiny):
    draft = truncated(mars_tiny, 2)
    seen = set()
    for name in ("units", "letters", "notes"):
        prompt = tasks.held_out(name, 1)[0].prompt
        settings = {"draft": draft, "tau": 0.9, "window": 4, "max_new_tokens": 60}
        run = decode(mars_tiny, prompt, Request(mode="speculative", **settings))
        without_cache.check(run, without_cache.speculative(mars_tiny, draft, prompt, 4, 0.9, 60))
        seen |= {(step.verified, step.accepted - step.verified - 1) for step in run.passes[:-1]}
        assert Run.read(list(run.lines())).passes[0].draft_forwards == run.passes[0].draft_forwards
    verified, behind = map(set, zip(*seen))
    assert verified == behind == {0, 1, 2, 3}  # drafts that held, and masks accepted after them


def test_the_drafter_rewinds_to_what_was_accepted(mars_tiny):
    ids = mars_tiny.tokenizer("How many meters is 14 kilometers?")["input_ids"]
    drafter = Drafter(mars_tiny, None)
    drafter.draft(ids, 6)
    other = [*ids[:4], *ids]
    for text in (other, other, other[:9], other[:8] + ids):  # also what its cache holds already
        assert drafter.draft(text, 6) == Drafter(mars_tiny, None).draft(text, 6)


def test_bad_drafts_are_refused(target, mars_tiny, tokenizer):
    with pytest.raises(ValueError, match="speculative"):
        decode(target, "hi", Request(mode="speculative"))
    other = load_checkpoint("mars-tiny", device="cpu")
    other.tokenizer.add_tokens(["unheard-of"])
    with pytest.raises(ValueError, match="tokenizers"):
        decode(mars_tiny, "hi", Request(mode="speculative", draft=other))
