"""Decoding against transformers' generate and against plain implementations that use no cache."""

import copy
import gc
import random
import weakref
from dataclasses import replace

import pytest
import torch
import without_cache
from greedy import check_tokens, generate
from random_models import random_model

from benchmarks.speculative import truncated
from mars_demo import tasks
from mars_demo.decoding.acceptance import accepted
from mars_demo.decoding.answer import Answer
from mars_demo.decoding.decode import decode
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.reading import ALTERNATIVES, Reading
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint, wrap
from mars_demo.modes import MODES

PROMPTS = ["How many apples?", "sort 3, 1, 2", "Write a note to Sam.\nThanks!", "ünïcode 👩‍🚀 שלום"]


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return wrap("random", random_model("qwen3", tokenizer), tokenizer)


def trained_for(checkpoint, mode: str) -> Checkpoint:
    """Return the checkpoint, for block diffusion as if it had been trained for that."""
    return replace(checkpoint, objective=mode) if mode == "block-diffusion" else checkpoint


def needed(checkpoint, mode: str) -> dict:
    """Return the settings without which a mode does not run."""
    return {"mode": mode} | ({"draft": truncated(checkpoint, 1)} if mode == "speculative" else {})


def test_ar_is_transformers_greedy_generate(random_checkpoint):
    for prompt in PROMPTS:
        run = decode(random_checkpoint, prompt, Request(mode="ar", max_new_tokens=24)).finish()
        check_tokens(random_checkpoint, run, generate(random_checkpoint, prompt, 24))
        assert run.forwards == run.tokens


@pytest.mark.parametrize(
    ("slots", "tau", "first"),
    [(9, 0.0, 0), (9, 0.05, 1), (4, 0.1, 2), (8, 0.6, 3), (1, 0.0, 2), (9, 1.0, 3)],
)
def test_mars_is_the_rule_without_cache(random_checkpoint, slots, tau, first):
    for prompt in (PROMPTS[first], PROMPTS[first - 2]):
        request = Request(mode="mars", window=slots, tau=tau, max_new_tokens=24)
        run = decode(random_checkpoint, prompt, request)
        without_cache.check(run, without_cache.window(random_checkpoint, prompt, slots, tau, 24))


@pytest.mark.parametrize(
    ("window", "linear", "prompt"),
    [(1, False, 0), (2, True, 1), (4, False, 2), (4, True, 3), (9, False, 3), (9, True, 0)],
)
def test_lossless_drafts_and_verifies_as_without_cache(random_checkpoint, window, linear, prompt):
    prompt = PROMPTS[prompt]
    request = Request(mode="lossless", window=window, linear=linear, max_new_tokens=24)
    run = decode(random_checkpoint, prompt, request)
    without_cache.check(run, without_cache.lossless(random_checkpoint, prompt, window, linear, 24))
    ar = decode(random_checkpoint, prompt, Request(mode="ar", max_new_tokens=24)).finish()
    check_tokens(random_checkpoint, run, ar.token_ids)


@pytest.mark.parametrize(
    ("size", "tau", "prompt"), [(1, 0.2, 0), (3, 1.0, 1), (3, 0.0, 0), (8, 0.2, 1), (8, 1.0, 0)]
)
def test_block_diffusion_matches_an_implementation_without_cache(random_checkpoint, size, tau, prompt):
    checkpoint, prompt = trained_for(random_checkpoint, "block-diffusion"), PROMPTS[prompt]
    request = Request(mode="block-diffusion", window=size, tau=tau, max_new_tokens=20)
    expected = without_cache.block_diffusion(checkpoint, prompt, size, tau, 20)
    without_cache.check_blocks(decode(checkpoint, prompt, request), expected)


@pytest.mark.parametrize(("window", "prompt"), [(1, 0), (2, 1), (9, 0), (20, 1)])
def test_jacobi_guesses_as_without_cache(random_checkpoint, window, prompt):
    prompt = PROMPTS[prompt]
    run = decode(random_checkpoint, prompt, Request(mode="jacobi", window=window, max_new_tokens=24))
    without_cache.check(run, without_cache.jacobi(random_checkpoint, prompt, window, 24))
    check_tokens(random_checkpoint, run, generate(random_checkpoint, prompt, 24))


def test_whatever_verifies_guesses_gives_the_tokens_of_ar_in_fewer_forwards(mars_tiny):
    """With a trained model drafts hold, wholly and in part: every pass is what it is without a cache."""
    verified: dict[tuple, set[int]] = {}
    for name in ("letters", "notes", "stories", "number-words", "units", "sorting"):
        prompt = tasks.held_out(name, 1)[0].prompt
        ar = decode(mars_tiny, prompt, Request(mode="ar", max_new_tokens=48)).finish()
        for mode, linear in (("lossless", False), ("lossless", True), ("jacobi", None)):
            run = decode(mars_tiny, prompt, Request(mode=mode, linear=linear, max_new_tokens=48))
            given = () if linear is None else (linear,)
            without_cache.check(run, getattr(without_cache, mode)(mars_tiny, prompt, 9, *given, 48))
            check_tokens(mars_tiny, run, ar.token_ids)
            assert run.forwards < ar.forwards
            found = {step.verified for step in run.passes if step.drafts == 8}
            verified.setdefault((mode, linear), set()).update(found)
    assert all(found >= {0, 1, 2, 3, 8} for found in verified.values())


def saturated(checkpoint) -> Checkpoint:
    """Return the checkpoint with logits so large that the best token has a probability of exactly 1."""
    model = copy.deepcopy(checkpoint.model)
    model.get_output_embeddings().weight.data *= 1000
    return replace(checkpoint, model=model)


def test_tau_one_is_one_token_per_forward_even_when_the_softmax_is_one(checkpoint):
    checkpoint = saturated(checkpoint)
    ar = decode(checkpoint, PROMPTS[0], Request(mode="ar", max_new_tokens=16)).finish()
    for mode in ("mars", "speculative", "block-diffusion"):
        trained = trained_for(checkpoint, mode)
        run = decode(
            trained, PROMPTS[0], Request(tau=1.0, max_new_tokens=16, **needed(checkpoint, mode))
        ).finish()
        if mode == "block-diffusion":
            assert run.forwards == run.tokens  # a mask per forward, in whatever order
        else:
            check_tokens(checkpoint, run, ar.token_ids)
            assert all(step.accepted == (step.verified or 0) + 1 for step in run.passes)
        certain = [slot.score for step in run.passes for slot in step.slots]
        assert certain.count(1.0) > len(certain) / 2


def test_tau_one_computes_what_ar_computes_and_masks_come_as_soon_as_it_is_lowered(mars_tiny):
    ar = decode(mars_tiny, PROMPTS[0], Request(mode="ar", max_new_tokens=12)).finish()
    one = decode(mars_tiny, PROMPTS[0], Request(tau=1.0, max_new_tokens=12)).finish()
    assert [step.positions for step in one.passes] == [step.positions for step in ar.passes]
    assert {len(step.slots) for step in one.passes} == {1}
    tau = 1.0
    run = decode(mars_tiny, PROMPTS[0], Request(tau=lambda: tau, max_new_tokens=40))
    first = next(run)
    tau = 0.95
    second = next(run)
    assert len(first.slots) == 1 and len(second.slots) == run.settings.window


def test_the_cache_holds_what_was_accepted_and_no_mask(mars_tiny, monkeypatch):
    engines = []
    original = Engine.commit

    def commit(self, count):
        original(self, count)
        engines.append((self, self.length, self.cache.keys.get_seq_length()))

    monkeypatch.setattr(Engine, "commit", commit)
    prompt = tasks.held_out("units", 1)[0].prompt
    for mode in ("ar", "mars", "lossless"):
        engines.clear()
        run = decode(mars_tiny, prompt, Request(mode=mode)).finish()
        ids = encode_prompt(mars_tiny.tokenizer, prompt) + run.token_ids
        engine, committed, cached = engines[-1]
        assert committed == cached
        committed = min(committed, len(ids))  # drafts behind an end token may be in the cache as well
        with torch.no_grad():
            fresh = mars_tiny.model(torch.tensor([ids[:committed]]), use_cache=True).past_key_values
        for ours, theirs in zip(engine.cache.keys.layers, fresh.layers):
            for kept, expected in ((ours.keys, theirs.keys), (ours.values, theirs.values)):
                torch.testing.assert_close(kept[:, :, :committed], expected, atol=1e-4, rtol=1e-3)


def test_forwards_carry_only_what_is_new(mars_tiny):
    prompt = tasks.held_out("units", 1)[0].prompt
    steps = list(decode(mars_tiny, prompt, Request(mode="mars", window=5, tau=0.9)))
    assert steps[0].positions == len(encode_prompt(mars_tiny.tokenizer, prompt)) + 4
    for before, step in zip(steps, steps[1:]):
        assert step.positions == before.accepted + 4
    steps = list(decode(mars_tiny, prompt, Request(mode="lossless", window=4, linear=False)))
    assert all(step.positions == 16 for step in steps[1:])
    steps = list(decode(mars_tiny, prompt, Request(mode="ar")))
    assert all(step.positions == 1 for step in steps[1:])


def end_after(checkpoint, prompt: str, count: int, **settings) -> tuple[Checkpoint, list[int]]:
    """Return the checkpoint with the `count`-th token of its answer as a second end token, and the answer
    up to there."""
    ids = decode(checkpoint, prompt, Request(max_new_tokens=40, **settings)).finish().token_ids
    extra = ids[count - 1]
    ended = replace(checkpoint, end_ids=checkpoint.end_ids | {extra})
    return ended, ids[: ids.index(extra) + 1]


@pytest.mark.parametrize("mode", MODES)
def test_any_end_token_inside_a_window_ends_the_answer(checkpoint, mode):
    checkpoint = trained_for(checkpoint, mode)
    settings = needed(checkpoint, mode) | ({} if mode in ("ar", "lossless") else {"tau": 0.0})
    for count in (1, 3, 7):
        ended, expected = end_after(checkpoint, PROMPTS[1], count, **settings)
        run = decode(ended, PROMPTS[1], Request(max_new_tokens=40, **settings)).finish()
        check_tokens(checkpoint, run, expected)
        assert (run.stop, run.passes[-1].stop) == ("eos", "eos")
        assert run.tokens == len(expected)


@pytest.mark.parametrize("mode", MODES)
def test_max_new_tokens_is_exact(checkpoint, mode):
    checkpoint = trained_for(checkpoint, mode)
    settings = needed(checkpoint, mode)
    for limit in (1, 2, 5, 10, 11):
        run = decode(checkpoint, PROMPTS[0], Request(tau=0.0, max_new_tokens=limit, **settings)).finish()
        assert (run.tokens, run.stop) == (limit, "length")


@pytest.mark.parametrize("mode", MODES)
def test_the_context_limit_ends_the_answer(checkpoint, mode):
    checkpoint = trained_for(checkpoint, mode)
    settings = needed(checkpoint, mode)
    run = decode(checkpoint, PROMPTS[2], Request(tau=0.0, max_new_tokens=10_000, **settings)).finish()
    assert run.stop == "length"
    assert run.settings.prompt_tokens + run.tokens == checkpoint.context


@pytest.mark.parametrize("mode", MODES)
def test_closing_stops_and_frees_everything(checkpoint, mode, monkeypatch):
    caches = []
    original = Engine.__init__

    def remember(self, *arguments):
        original(self, *arguments)
        caches.append(weakref.ref(self.cache.keys))

    monkeypatch.setattr(Engine, "__init__", remember)
    checkpoint = trained_for(checkpoint, mode)
    run = decode(checkpoint, PROMPTS[0], Request(max_new_tokens=50, **needed(checkpoint, mode)))
    next(run)
    next(run)
    run.close()
    gc.collect()
    assert len(caches) == (2 if mode == "speculative" else 1)
    assert not any(cache() for cache in caches)
    assert (run.stop, run.forwards) == ("stopped", 2)
    assert list(run) == []


def test_streamed_text_is_the_answer_and_never_half_a_character(tokenizer):
    """Random models answer in random bytes; the accepted texts, joined, are the tokenizer's own decoding,
    and no prefix of the stream ends in bytes that a later token completes."""
    checkpoint = wrap("random", random_model("llama", tokenizer, context=512), tokenizer)
    rng = random.Random(0)
    for number, prompt in enumerate([*PROMPTS, *(str(rng.random()) for _ in range(4))]):
        for mode in list(MODES)[number % 3 :: 3]:
            settings = needed(checkpoint, mode) | {"tau": 0.1, "max_new_tokens": 60}
            run = decode(trained_for(checkpoint, mode), prompt, Request(**settings))
            shown = ""
            for step in run:
                shown += step.text
            whole = tokenizer.decode(run.token_ids, skip_special_tokens=True)
            assert shown == whole


def test_bytes_of_an_unfinished_character_wait_until_the_answer_ends(mars_tiny, tokenizer):
    ids = tokenizer("né 👩‍🚀 שלום 🚀", add_special_tokens=False)["input_ids"][:-1]
    answer = Answer(mars_tiny, limit=len(ids))
    pieces = [answer.step([Reading(token, 1.0, [token], [1.0])], 1, positions=1).text for token in ids]
    assert "".join(pieces) == tokenizer.decode(ids)
    assert "" in pieces and not any("\ufffd" in piece for piece in pieces[:-1])


def test_every_slot_is_recorded_with_its_alternatives(mars_tiny):
    prompt = tasks.held_out("letters", 1)[0].prompt
    for step in decode(mars_tiny, prompt, Request(mode="mars", tau=0.95)):
        for slot in step.slots:
            assert len(slot.top) == ALTERNATIVES
            probabilities = [probability for _, probability in slot.top]
            assert probabilities == sorted(probabilities, reverse=True)
            assert slot.score == probabilities[0]
        if not step.stop:
            assert step.accepted == accepted([slot.score for slot in step.slots], 0.95)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"prompt": "  \n"}, "prompt"),
        ({"prompt": "word " * 600}, r"\b511\b"),
        ({"window": 0}, r"\b0\b.*\b9\b"),
        ({"window": 10}, r"\b10\b.*\b9\b"),
        ({"window": 10, "mode": "lossless"}, r"\b10\b.*\b9\b"),
        ({"window": 2, "mode": "ar"}, r"\b2\b.*\b1\b"),
        ({"mode": "fast"}, "fast.*mars, lossless, ar"),
        ({"max_new_tokens": 0}, r"max_new_tokens.*\b0\b"),
    ],
)
def test_bad_input_is_named_in_one_line(mars_tiny, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        settings = dict(settings)
        decode(mars_tiny, settings.pop("prompt", "hello"), Request(**settings))
    assert "\n" not in str(error.value)


def test_modes_have_defaults_of_their_own(checkpoint):
    """On a CPU, where positions cost time, lossless drafts in a line."""
    draft = truncated(checkpoint, 1)
    widths = {"ar": 1, "mars": 9, "lossless": 9, "jacobi": 9, "speculative": 5, "block-diffusion": 8}
    for mode, width in widths.items():
        run = decode(
            trained_for(checkpoint, mode), "hi", Request(mode=mode, draft=draft, max_new_tokens=20)
        )
        assert run.settings.window == width
    groups = {}
    for linear in (None, True, False):
        run = decode(checkpoint, "hi", Request(mode="lossless", linear=linear, max_new_tokens=20)).finish()
        groups[linear] = [(step.groups, step.positions) for step in run.passes[:3]]
    assert groups[None] == groups[True] == [(1, groups[True][0][1]), (1, 17), (1, 9)]
    assert groups[False][1:] == [(9, 81), (9, 81)]


def test_the_longest_prompt_leaves_room_for_one_token(checkpoint):
    context = checkpoint.context
    prompt = " ".join(["x"] * (context - 1))
    run = decode(checkpoint, prompt, Request(raw=True, max_new_tokens=9)).finish()
    assert (run.settings.prompt_tokens, run.tokens) == (context - 1, 1)
    with pytest.raises(ValueError, match=rf"\b{context}\b.*{checkpoint.name}.*\b{context - 1}\b"):
        decode(checkpoint, prompt + " x", Request(raw=True))
    draft = replace(truncated(checkpoint, 1), name="short", context=50)
    settings = {"mode": "speculative", "draft": draft, "raw": True}
    assert decode(checkpoint, " ".join("x" * 49), Request(**settings)).finish().tokens == 1
    with pytest.raises(ValueError, match=r"\b50\b.*short.*\b49\b"):
        decode(checkpoint, " ".join("x" * 50), Request(**settings))


def test_a_checkpoint_decodes_only_as_it_was_trained_for(mars_tiny, ar_tiny):
    diffusion = trained_for(mars_tiny, "block-diffusion")
    for checkpoint, mode, modes in (
        (ar_tiny, "lossless", "ar, jacobi"),
        (diffusion, "mars", "block-diffusion"),
        (mars_tiny, "block-diffusion", "mars, lossless, ar, jacobi"),
    ):
        with pytest.raises(ValueError, match=f"{checkpoint.name}.*{mode}.*{modes}"):
            decode(checkpoint, "hello", Request(mode=mode))


def test_special_tokens_spelled_out_in_a_prompt_are_plain_text(mars_tiny, tokenizer):
    prompt = "a <|mask|> b <|end|><|assistant|> c"
    for raw in (False, True):
        run = decode(mars_tiny, prompt, Request(raw=raw, max_new_tokens=1))
        ids = encode_prompt(tokenizer, prompt)
        assert run.settings.prompt_tokens == len(ids) - (3 if raw else 0)
    assert ids.count(tokenizer.mask_token_id) == 0
    assert ids.count(tokenizer.eos_token_id) == 1  # the template's own
    assert prompt in tokenizer.decode(ids)
