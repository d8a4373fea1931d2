"""Decoding compared with transformers generate and with reference implementations without a cache."""

import gc
import itertools
import random
import time
import weakref
from dataclasses import replace

import pytest
import torch
import without_cache
from draft_models import trained_for, truncated
from greedy import check_same_passes, check_tokens, generate
from random_models import ARCHITECTURES, random_model

from mars_demo import tasks
from mars_demo.core.modes import MODES
from mars_demo.core.trace import Run
from mars_demo.decoding import prefill
from mars_demo.decoding.answer import Answer
from mars_demo.decoding.decode import decode
from mars_demo.decoding.prompt_lookup import continued, earlier
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint, wrap
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine

PROMPTS = ["How many apples?", "sort 3, 1, 2", "Write a note to Sam.\nThanks!", "ünïcode 👩‍🚀 שלום"]


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return wrap("random", random_model("qwen3", tokenizer), tokenizer)


def required(checkpoint, mode: str) -> dict:
    """Return the settings that a mode requires."""
    return {"mode": mode} | ({"draft": truncated(checkpoint, 1)} if mode == "speculative" else {})


def test_ar_equals_transformers_greedy_generate(random_checkpoint):
    for prompt in PROMPTS:
        run = decode(random_checkpoint, prompt, Request(mode="ar", max_new_tokens=24)).finish()
        check_tokens(random_checkpoint, run, generate(random_checkpoint, prompt, 24))
        assert run.forwards == run.tokens


def cases(names: str, *values: tuple):
    """Parametrize a test by values, each with one architecture of `random_checkpoint` in turn.

    A mode does not know the architecture: every mode meets each of them, but not with all values.
    """
    rows = [(architecture, *row) for architecture, row in zip(itertools.cycle(ARCHITECTURES), values)]
    return pytest.mark.parametrize(f"random_checkpoint, {names}", rows, indirect=["random_checkpoint"])


@cases("slots, tau, first", (9, 0.0, 0), (9, 0.05, 1), (4, 0.1, 2), (8, 0.6, 3), (1, 0.0, 2), (9, 1.0, 3))
def test_mars_equals_the_reference(random_checkpoint, slots, tau, first):
    for prompt in (PROMPTS[first], PROMPTS[first - 2]):
        request = Request(mode="mars", window=slots, tau=tau, max_new_tokens=24)
        run = decode(random_checkpoint, prompt, request)
        without_cache.check(run, without_cache.window(random_checkpoint, prompt, slots, tau, 24))


@cases(
    "window, linear, prompt",
    (1, False, 0),
    (2, True, 1),
    (4, False, 2),
    (4, True, 3),
    (9, False, 3),
    (9, True, 0),
)
def test_lossless_equals_the_reference(random_checkpoint, window, linear, prompt):
    prompt = PROMPTS[prompt]
    request = Request(mode="lossless", window=window, linear=linear, max_new_tokens=24)
    run = decode(random_checkpoint, prompt, request)
    without_cache.check(run, without_cache.lossless(random_checkpoint, prompt, window, linear, 24))
    ar = decode(random_checkpoint, prompt, Request(mode="ar", max_new_tokens=24)).finish()
    check_tokens(random_checkpoint, run, ar.token_ids)


@cases("size, tau, prompt", (1, 0.2, 0), (3, 1.0, 1), (3, 0.0, 0), (8, 0.2, 1), (8, 1.0, 0))
def test_block_diffusion_equals_the_reference(random_checkpoint, size, tau, prompt):
    checkpoint, prompt = trained_for(random_checkpoint, "block-diffusion"), PROMPTS[prompt]
    request = Request(mode="block-diffusion", window=size, tau=tau, max_new_tokens=20)
    expected = without_cache.block_diffusion(checkpoint, prompt, size, tau, 20)
    without_cache.check_blocks(decode(checkpoint, prompt, request), expected)


@cases("window, prompt", (1, 0), (2, 1), (9, 0), (20, 1))
def test_jacobi_equals_the_reference(random_checkpoint, window, prompt):
    prompt = PROMPTS[prompt]
    run = decode(random_checkpoint, prompt, Request(mode="jacobi", window=window, max_new_tokens=24))
    without_cache.check(run, without_cache.jacobi(random_checkpoint, prompt, window, 24))
    check_tokens(random_checkpoint, run, generate(random_checkpoint, prompt, 24))


def test_modes_that_verify_give_the_tokens_of_ar_in_fewer_forwards(mars_tiny):
    """Compare every pass with the reference, on a trained model: some, all or no drafts are accepted."""
    verified: dict[tuple, set[int]] = {}
    for name in ("notes", "stories"):
        prompt = tasks.held_out(name, 1)[0].prompt
        ar = decode(mars_tiny, prompt, Request(mode="ar", max_new_tokens=48)).finish()
        for mode, linear in (("lossless", False), ("lossless", True), ("jacobi", None)):
            run = decode(mars_tiny, prompt, Request(mode=mode, linear=linear, max_new_tokens=48))
            layout = () if linear is None else (linear,)
            without_cache.check(run, getattr(without_cache, mode)(mars_tiny, prompt, 9, *layout, 48))
            check_tokens(mars_tiny, run, ar.token_ids)
            assert run.forwards < ar.forwards
            counts = {step.verified for step in run.passes if step.drafts == 8}
            verified.setdefault((mode, linear), set()).update(counts)
    assert all(counts >= {0, 1, 2, 3, 8} for counts in verified.values())


def test_tau_one_computes_as_ar_and_masks_appear_when_tau_is_lowered(mars_tiny):
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


def end_after(checkpoint, prompt: str, count: int, **settings) -> tuple[Checkpoint, list[int]]:
    """Return the checkpoint with the `count`-th token of its answer as a second end token, and the answer.

    The answer ends with that token.
    """
    ids = decode(checkpoint, prompt, Request(max_new_tokens=40, **settings)).finish().token_ids
    extra = ids[count - 1]
    ended = replace(checkpoint, end_ids=checkpoint.end_ids | {extra})
    return ended, ids[: ids.index(extra) + 1]


@pytest.mark.parametrize("mode", MODES)
def test_any_end_token_inside_a_window_ends_the_answer(checkpoint, mode):
    checkpoint = trained_for(checkpoint, mode)
    settings = required(checkpoint, mode) | ({} if mode in ("ar", "lossless") else {"tau": 0.0})
    for count in (1, 3, 7):
        ended, expected = end_after(checkpoint, PROMPTS[1], count, **settings)
        run = decode(ended, PROMPTS[1], Request(max_new_tokens=40, **settings)).finish()
        check_tokens(checkpoint, run, expected)
        assert (run.stop, run.passes[-1].stop) == ("eos", "eos")
        assert run.tokens == len(expected)


@pytest.mark.parametrize("mode", MODES)
def test_the_answer_ends_at_its_limit_or_at_that_of_the_context(checkpoint, mode):
    checkpoint = trained_for(checkpoint, mode)
    settings = required(checkpoint, mode)
    for limit in (1, 2, 5, 10, 11):
        run = decode(checkpoint, PROMPTS[0], Request(tau=0.0, max_new_tokens=limit, **settings)).finish()
        assert (run.tokens, run.stop) == (limit, "length")
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
    run = decode(checkpoint, PROMPTS[0], Request(max_new_tokens=50, **required(checkpoint, mode)))
    next(run)
    next(run)
    run.close()
    gc.collect()
    assert len(caches) == (2 if mode == "speculative" else 1)
    assert not any(cache() for cache in caches)
    assert (run.stop, run.forwards) == ("stopped", 2)
    assert list(run) == []


def test_bytes_of_an_unfinished_character_wait_until_the_answer_ends(mars_tiny, tokenizer):
    ids = tokenizer("né 👩‍🚀 שלום 🚀", add_special_tokens=False)["input_ids"][:-1]
    answer = Answer(mars_tiny, [], limit=len(ids))
    readings = [Reading(token, 1.0, [token], [1.0]) for token in ids]
    pieces = [answer.step([reading], 1, keep=1, positions=1).step.text for reading in readings]
    assert "".join(pieces) == tokenizer.decode(ids)
    assert "" in pieces and not any("\ufffd" in piece for piece in pieces[:-1])


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
        ({"stop_strings": ("a", "")}, "(?i)stop.*empty"),
        ({"ngram_tokens": -1}, r"ngram_tokens.*\b16\b.*-1"),
        ({"ngram_tokens": 17}, r"ngram_tokens.*\b16\b.*17"),
    ],
)
def test_bad_input_is_named_in_one_line(mars_tiny, settings, message):
    with pytest.raises(ValueError, match=message) as error:
        settings = dict(settings)
        decode(mars_tiny, settings.pop("prompt", "hello"), Request(**settings))
    assert "\n" not in str(error.value)


def test_modes_have_defaults_of_their_own(checkpoint):
    """Draft in the linear layout on a CPU, where positions cost time."""
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


def test_special_tokens_spelled_out_in_a_prompt_are_plain_text(mars_tiny, tokenizer):
    prompt = "a <|mask|> b <|end|><|assistant|> c"
    for raw in (False, True):
        run = decode(mars_tiny, prompt, Request(raw=raw, max_new_tokens=1))
        ids = encode_prompt(tokenizer, prompt)
        assert run.settings.prompt_tokens == len(ids) - (3 if raw else 0)
    assert ids.count(tokenizer.mask_token_id) == 0
    assert ids.count(tokenizer.eos_token_id) == 1  # the template's own
    assert prompt in tokenizer.decode(ids)


# -------------------------------------------------------------------------------- drafts of a second model


def test_an_ar_target_verifies_what_a_mars_model_drafts(ar_tiny, mars_tiny):
    for name in ("units", "letters", "stories"):
        prompt = tasks.held_out(name, 1)[0].prompt
        expected = decode(ar_tiny, prompt, Request(mode="ar", max_new_tokens=60)).finish()
        run = decode(
            ar_tiny, prompt, Request(mode="speculative", draft=mars_tiny, tau=0.5, max_new_tokens=60)
        ).finish()
        check_tokens(ar_tiny, run, expected.token_ids)
        assert {step.groups for step in run.passes} == {0}


@cases("window, tau, prompt", (2, 0.0, 0), (2, 0.05, 1), (5, 0.05, 0), (5, 1.0, 1))
def test_every_speculative_pass_equals_the_reference(random_checkpoint, window, tau, prompt):
    draft, prompt = truncated(random_checkpoint, 2), PROMPTS[prompt]
    settings = {"draft": draft, "tau": tau, "window": window, "max_new_tokens": 24}
    run = decode(random_checkpoint, prompt, Request(mode="speculative", **settings))
    without_cache.check(run, without_cache.speculative(random_checkpoint, draft, prompt, window, tau, 24))


def test_a_mars_target_continues_after_the_drafts_while_confident(mars_tiny):
    draft = truncated(mars_tiny, 2)
    counts = set()
    for name in ("units", "letters", "notes"):
        prompt = tasks.held_out(name, 1)[0].prompt
        settings = {"draft": draft, "tau": 0.9, "window": 4, "max_new_tokens": 60}
        run = decode(mars_tiny, prompt, Request(mode="speculative", **settings))
        without_cache.check(run, without_cache.speculative(mars_tiny, draft, prompt, 4, 0.9, 60))
        counts |= {(step.verified, step.accepted - step.verified - 1) for step in run.passes[:-1]}
        assert Run.read(list(run.lines())).passes[0].draft_forwards == run.passes[0].draft_forwards
    verified, after = map(set, zip(*counts))
    assert verified == after == {0, 1, 2, 3}  # accepted drafts, and masks accepted after them


def test_bad_drafts_are_refused(mars_tiny):
    with pytest.raises(ValueError, match="speculative"):
        decode(mars_tiny, "hi", Request(mode="speculative"))
    other = load_checkpoint("mars-tiny", device="cpu")
    other.tokenizer.add_tokens(["unheard-of"])
    with pytest.raises(ValueError, match="tokenizers"):
        decode(mars_tiny, "hi", Request(mode="speculative", draft=other))


# -------------------------------------------------------------------------------------------- stop strings

ASKED = [example.prompt for example in tasks.mixed(1)]
STOPS = [(". ",), ("1", "the"), ("ing ", "e "), ("nowhere",), ("x" * 40, "\n")]


def up_to_stop(checkpoint, ids: list[int], stops: tuple[str, ...]) -> tuple[list[int], str | None]:
    """Return the fewest leading ids whose text contains a stop string, decoding each length anew."""
    for count in range(1, len(ids) + 1):
        text = checkpoint.tokenizer.decode(ids[:count], skip_special_tokens=True)
        if any(stop in text for stop in stops) and ids[count - 1] not in checkpoint.end_ids:
            return ids[:count], "stop string"
    return ids, None


@pytest.mark.parametrize(
    ("mode", "tau", "stops"),
    [
        ("ar", 1.0, 0),
        ("mars", 0.7, 2),
        ("mars", 0.7, 3),
        ("lossless", 1.0, 0),
        ("lossless", 1.0, 4),
        ("jacobi", 1.0, 1),
    ],
)
def test_an_answer_ends_with_the_token_that_completes_a_stop_string(mars_tiny, mode, tau, stops):
    stops = STOPS[stops]
    for prompt in ASKED[3:6]:
        whole = decode(mars_tiny, prompt, Request(mode, tau, max_new_tokens=60)).finish()
        request = Request(mode, tau, max_new_tokens=60, stop_strings=stops)
        run = decode(mars_tiny, prompt, request).finish()
        ids, stop = up_to_stop(mars_tiny, whole.token_ids, stops)
        assert (run.token_ids, run.stop) == (ids, stop or whole.stop)  # forwards of the same shapes
        assert run.forwards <= whole.forwards
        assert run.text == mars_tiny.tokenizer.decode(ids, skip_special_tokens=True)


def test_a_special_token_ends_an_answer_by_its_name(mars_tiny):
    whole = decode(mars_tiny, ASKED[0], Request("mars", max_new_tokens=80)).finish()
    assert whole.stop == "eos"
    endless = replace(mars_tiny, end_ids=frozenset())
    request = Request("mars", max_new_tokens=80, stop_strings=("<|end|>",))
    run = decode(endless, ASKED[0], request).finish()
    assert (run.token_ids, run.stop) == (whole.token_ids, "stop string")
    assert decode(endless, ASKED[0], replace(request, stop_strings=())).finish().stop == "length"


# ------------------------------------------------------------------------------------------- n-gram drafts

QUOTE = "Copy this: the red fox saw the old owl, and the old owl saw the red fox; the red fox saw"


@pytest.fixture(scope="module")
def looping(tokenizer):
    """Return a random model that repeats itself often, but rarely for long.

    It says little more than eight tokens, each mostly determined by the one before.
    """
    model = random_model("llama", tokenizer, context=256)
    for name, weight in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            weight.data *= 0.05
    head = model.get_output_embeddings().weight.data
    head[:20] *= 1e-3
    head[28:] *= 1e-3
    return wrap("looping", model, tokenizer)


@pytest.mark.parametrize("seed", range(8))
def test_a_match_equals_a_search_of_the_whole_text(seed):
    rng = random.Random(seed)
    size = [1, 2, 3, 6, 40][seed % 5]
    ids = [rng.randrange(size) for _ in range(120)]
    for end in range(1, len(ids)):
        match, place = earlier(ids[:end])
        assert (match, place) == without_cache.earlier(ids[:end])
        if match:
            long = ids[:end]
            for at in range(place, place + 9):
                long.append(long[at])  # token by token, including copied tokens
            assert continued(ids[:end], place, 9) == long[end:]


def is_copy(slot) -> bool:
    return slot.source == "copy"


@pytest.mark.parametrize(("window", "linear"), [(1, True), (4, True), (4, False)])
def test_n_gram_drafts_save_forwards_and_change_no_answer(looping, window, linear):
    request = Request("lossless", window=window, linear=linear, max_new_tokens=80)
    run = decode(looping, QUOTE, request).finish()
    check_tokens(looping, run, generate(looping, QUOTE, 80))
    plain = without_cache.lossless(looping, QUOTE, window, linear, 80)
    without_cache.check(decode(looping, QUOTE, request), plain)
    assert run.sources["copy"] > 20
    # Some n-gram drafts are accepted completely, some partly, some not at all.
    copied = [step for before, step in itertools.pairwise(run.passes) if is_copy(before.slots[-1])]
    assert {(step.verified > 0, step.verified < step.drafts) for step in copied} == {
        (True, True),
        (True, False),
        (False, True),
    }
    request = replace(request, ngram_tokens=0)
    alone = decode(looping, QUOTE, request).finish()
    assert alone.sources["copy"] == 0 and alone.tokens_per_forward < run.tokens_per_forward
    assert max(step.drafts for step in run.passes) > 4
    assert max(step.drafts for step in alone.passes) == window - 1


@pytest.mark.parametrize("mode", ["ar", "mars", "lossless"])
def test_a_model_with_broken_weights_ends_the_run_with_a_sentence(tokenizer, mode):
    model = random_model("llama", tokenizer, context=256)
    with torch.no_grad():
        model.get_output_embeddings().weight[5] = float("nan")
    run = decode(wrap("broken", model, tokenizer), "Hello", Request(mode, 0.9))
    with pytest.raises(ValueError, match="not numbers.*float32"):
        run.finish()
    assert not run.passes


# --------------------------------------------------------------------------------------- long prompts

LONG = " ".join(str(number) for number in range(330))


@pytest.fixture(scope="module")
def roomy(tokenizer):
    return wrap("roomy", random_model("qwen3", tokenizer, context=1400), tokenizer)


@pytest.fixture
def sizes(roomy):
    """Yield the positions of the forwards so far."""
    counted = []

    def count(module, inputs, named):
        counted.append(named["input_ids"].shape[1])

    hook = roomy.model.base_model.register_forward_pre_hook(count, with_kwargs=True)
    yield counted
    hook.remove()


@pytest.mark.parametrize("mode", MODES)
def test_a_long_prompt_is_computed_in_chunks_and_the_record_does_not_show_it(
    roomy, sizes, mode, monkeypatch
):
    checkpoint, settings = trained_for(roomy, mode), required(roomy, mode)
    request = Request(tau=0.2, max_new_tokens=12, **settings)
    run = decode(checkpoint, LONG, request).finish()
    largest = max(sizes)
    monkeypatch.setattr(prefill, "CHUNK", 10**6)
    whole = decode(checkpoint, LONG, request).finish()
    assert largest < 300 < whole.settings.prompt_tokens <= max(sizes)
    check_same_passes(run, whole)
    assert [step.positions for step in run.passes] == [step.positions for step in whole.passes]
    assert run.forwards == whole.forwards
    assert replace(run.settings, run="") == replace(whole.settings, run="")
    if mode == "ar":
        check_tokens(roomy, run, generate(roomy, LONG, 12))


def test_the_time_to_the_first_token_includes_all_chunks(roomy, sizes, monkeypatch):
    """Let the clock count forwards."""
    monkeypatch.setattr(time, "perf_counter", lambda: len(sizes))
    run = decode(roomy, LONG, Request("ar", max_new_tokens=3)).finish()
    chunks = len(sizes) - run.forwards
    assert chunks > 1
    times = [(step.ms, step.model_ms, step.read_ms) for step in run.passes]
    assert times == [(1000 * (chunks + 1), 1000 * (chunks + 1), 0), (1000, 1000, 0), (1000, 1000, 0)]


def test_a_run_pauses_between_the_chunks_of_its_prompt(roomy, sizes):
    request = Request("mars", 0.9, max_new_tokens=3)
    turns = list(decode(roomy, LONG, request).turns())
    expected = decode(roomy, LONG, request).finish()
    first = next(number for number, step in enumerate(turns) if step)
    assert first > 1 and len(turns) == first + expected.forwards and all(turns[first:])
