"""Batches: every sequence gives the tokens that it gives alone, and the schedule of forwards."""

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from draft_models import truncated
from greedy import check_same_passes, check_tokens
from random_models import random_model

from mars_demo import tasks
from mars_demo.core import layout as layouts
from mars_demo.core.schedule import COMPUTE, WAIT, with_block_cache, with_ragged_cache
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.reading import Forward
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import wrap
from mars_demo.models.runtime.decoder import TransformersDecoder
from mars_demo.models.runtime.engine import Engine
from mars_demo.serving.batch import GPU_PADDING, PADDING, Batch, apart
from mars_demo.serving.batch_sequence import lossless_window
from mars_demo.serving.cache import RaggedCache
from mars_demo.serving.decode_batch import decode_batch

PROMPTS = [
    "Hi",
    "How many apples?",
    "sort 3, 1, 2 " * 6,
    "Write a note to Sam.\nThanks!",
    "ünïcode 👩‍🚀 שלום",
    "x",
]
SETTINGS = [
    {"mode": "ar"},
    {"mode": "mars", "tau": 0.05},
    {"mode": "mars", "tau": 0.0, "window": 5},
    {"mode": "lossless", "linear": False, "window": 9},
    {"mode": "lossless", "linear": True, "window": 4},
    {"mode": "jacobi"},
    {"mode": "speculative", "tau": 0.2},
]


# Every size with every cache, every mode with two combinations of them.
CASES = [
    (0, 1, "ragged"), (0, 3, 4), (1, 3, "ragged"), (1, 6, 16), (2, 6, "ragged"), (2, 1, 4), (3, 6, 4),
    (3, 3, "none"), (4, 1, 16), (4, 6, "none"), (5, 3, 16), (5, 1, "none"), (6, 6, "ragged"), (6, 3, 4),
]  # fmt: skip


@pytest.fixture(scope="module")
def alone(checkpoint):
    """Return a function from settings to their request and the run of each prompt alone."""

    @functools.cache
    def decoded(number: int) -> tuple[Request, list[Run]]:
        settings = SETTINGS[number]
        if settings["mode"] == "speculative":
            settings = settings | {"draft": truncated(checkpoint, 2)}
        request = Request(max_new_tokens=20, **settings)
        return request, [decode(checkpoint, prompt, request).finish() for prompt in PROMPTS]

    return decoded


@pytest.mark.parametrize(("settings", "size", "cache"), CASES)
def test_every_sequence_gives_the_tokens_it_gives_alone(checkpoint, alone, settings, size, cache):
    request, runs = alone(settings)
    kind = {"cache": "block", "cache_block": cache} if isinstance(cache, int) else {"cache": cache}
    batch = decode_batch(checkpoint, PROMPTS, request, size=size, **kind).finish()
    for run, expected in zip(batch.runs, runs):
        check_same_passes(run, expected)
    commits = [run.commits for run in batch.runs]
    assert all(commits) if cache == 4 else cache == 16 or not any(commits)


@pytest.mark.parametrize("size", [1, 3])
def test_block_diffusion_batches_only_with_the_ragged_cache(checkpoint, size):
    checkpoint = replace(checkpoint, objective="block-diffusion")
    request = Request("block-diffusion", tau=0.2, max_new_tokens=20)
    batch = decode_batch(checkpoint, PROMPTS, request, size=size).finish()
    for prompt, run in zip(PROMPTS, batch.runs):
        check_same_passes(run, decode(checkpoint, prompt, request).finish())
    for cache in ("block", "none"):
        with pytest.raises(ValueError, match=f"block-diffusion.*{cache}.*ragged"):
            decode_batch(checkpoint, PROMPTS, request, cache=cache)


def turns(lengths: list[int], size: int, continuous: bool) -> list[list[int]]:
    """Return which sequences compute in each step; sequence r needs `lengths[r]` forwards, `size` fit."""
    left, waiting, seated, steps = list(lengths), list(range(len(lengths))), [], []
    while waiting or seated:
        if continuous or not seated:
            free = size - len(seated)
            seated, waiting = seated + waiting[:free], waiting[free:]
        steps.append(sorted(seated))
        for row in seated:
            left[row] -= 1
        seated = [row for row in seated if left[row]]
    return steps


@pytest.mark.parametrize(("size", "continuous"), [(1, True), (2, True), (2, False), (3, False)])
def test_a_finished_sequence_frees_its_slot_at_once_or_with_all_others(checkpoint, size, continuous):
    prompts = [f"{prompt} {i}" for i, prompt in enumerate(["Hi", "How many?", "x", "Thanks!", "12"])]
    settings = {"tau": 0.0, "window": 3, "mode": "mars"}
    # Answers of different lengths: some have an end token that others never sample.
    ids = [
        decode(checkpoint, p, Request(max_new_tokens=24, **settings)).finish().token_ids for p in prompts
    ]
    ended = replace(checkpoint, end_ids=checkpoint.end_ids | {ids[0][20], ids[1][3], ids[2][9]})
    alone = [decode(ended, p, Request(max_new_tokens=24, **settings)).finish() for p in prompts]
    assert len({run.forwards for run in alone}) > 2
    expected = turns([run.forwards for run in alone], size, continuous)
    batch = decode_batch(
        ended, prompts, Request(max_new_tokens=24, **settings), size=size, continuous=continuous
    )
    moved = list(batch)
    assert [sorted(numbers) for numbers in moved] == expected
    assert batch.batch.waits == 0
    assert [run.token_ids for run in batch.runs] == [run.token_ids for run in alone]
    passes = [iter(run.passes) for run in batch.runs]  # every sequence is padded to the longest
    padded = [len(step) * max(next(passes[row]).positions for row in step) for step in expected]
    assert batch.batch.positions == sum(padded)


@pytest.mark.parametrize("cache_block", [1, 8, 16])
def test_sequences_with_a_full_block_wait_for_the_others(mars_tiny, cache_block):
    """A batch computes the schedule and the positions that are derived from runs alone."""
    prompts = [tasks.held_out(name, 1)[0].prompt for name in ("letters", "stories", "units", "notes")]
    request = Request("mars", tau=0.9, window=6, max_new_tokens=40)
    alone = [decode(mars_tiny, prompt, request).finish() for prompt in prompts]
    expected = with_block_cache(prompts, [run.passes for run in alone], cache_block)
    one_alone = [step for step in expected.steps if WAIT in step and step.count(COMPUTE) == 1]
    assert cache_block == 1 or one_alone
    batch = decode_batch(mars_tiny, prompts, request, size=4, cache="block", cache_block=cache_block)
    assert [*batch] == [[row for row in range(4) if step[row] == COMPUTE] for step in expected.steps]
    assert batch.batch.positions == sum(expected.positions)
    assert batch.batch.waits == sum(step.count(WAIT) for step in expected.steps)
    assert [run.token_ids for run in batch.runs] == [run.token_ids for run in alone]


def test_padding_sees_one_column_that_no_token_sees(checkpoint):
    """Give padding one visible column: without one, some kernels return NaN, which spreads in the cache."""
    inputs = []

    def keep(module, args, named):
        inputs.append((named["position_ids"], named["attention_mask"][:, 0]))

    hook = checkpoint.model.base_model.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        batch = decode_batch(
            checkpoint, PROMPTS, Request(tau=0.0, window=3, max_new_tokens=8), size=3
        ).finish()
    finally:
        hook.remove()
    assert len(inputs) == batch.batch.forwards
    for positions, visible in inputs:
        assert visible.any(-1).all()
        padding = visible[:, :, -1]
        assert (visible[padding].sum(-1) == 1).all()
        assert (positions[padding] == 0).all()
    assert any(visible[:, :, -1].any() for _, visible in inputs)


@pytest.mark.parametrize(("length", "together"), [(PADDING + 1, True), (PADDING + 2, False)])
def test_a_long_prompt_computes_alone_if_padding_costs_more(checkpoint, length, together):
    """Compute a long prompt alone: beside it, each sequence with one position has n - 1 of padding."""
    prompts = ["Hi", "a b c d e", " ".join(["x"] * length)]
    settings = {"mode": "ar", "raw": True, "max_new_tokens": 5}
    alone = [decode(checkpoint, prompt, Request(**settings)).finish().token_ids for prompt in prompts]
    assert len(checkpoint.tokenizer(prompts[2])["input_ids"]) == length
    ended = replace(checkpoint, end_ids=checkpoint.end_ids | {alone[0][1]})  # after two forwards
    batch = decode_batch(ended, prompts, Request(**settings), size=2)
    assert [*batch][1:4] == [[0, 1], [1, 2] if together else [2], [1, 2]]
    assert [run.token_ids for run in batch.runs] == [alone[0][:2], *alone[1:]]


def test_new_prompts_are_not_padded_to_one_much_longer_than_they_are(checkpoint):
    prompts = [" ".join(["x"] * length) for length in (200, 10, 12)]
    request = Request("ar", raw=True, max_new_tokens=2)
    batch = decode_batch(checkpoint, prompts, request, size=3)
    assert [sorted(moved) for moved in batch] == [[0], [0, 1, 2], [1, 2]]
    assert batch.batch.positions == 200 + 3 * 12 + 2  # beside the short ones, the long one's second forward
    for prompt, run in zip(prompts, batch.runs):
        check_same_passes(run, decode(checkpoint, prompt, request).finish())


@pytest.mark.parametrize("padding", [0, PADDING, GPU_PADDING])
@pytest.mark.parametrize(
    ("new", "others"),
    [
        ([], [1, 9]), ([10] * 8, []), ([8000], [1] * 15), ([8000, 12, 10], [1] * 13),
        ([12, 8000, 7900, 10], [9] * 4), ([100] * 4, [1] * 12), ([3000, 1500, 700, 300], [1]),
    ],
)  # fmt: skip
def test_the_longest_new_prompts_compute_apart_if_that_saves_more_than_a_forward(new, others, padding):
    def cost(count: int) -> int:
        longest = sorted(new)[len(new) - count :]
        rest = sorted(new)[: len(new) - count] + others
        return sum(len(part) * max(part) for part in (longest, rest) if part) + padding * bool(count)

    costs = [cost(count) for count in range(len(new) + 1)]
    assert costs[apart(new, others, padding)] == min(costs)


@pytest.mark.parametrize(
    ("prompts", "settings", "message"),
    [
        ([], {}, "prompt"),
        (["hi"], {"size": 0}, r"size.*\b0\b"),
        (["hi"], {"cache_block": 0}, r"block.*\b0\b"),
        (["hi"], {"cache": "big"}, "big.*ragged, block, none"),
        (["hi", "  "], {}, r"\b2\b.*prompt"),
        (["hi", "word " * 900], {}, r"\b2\b.*\b255\b"),
    ],
)
def test_bad_input_is_named(checkpoint, prompts, settings, message):
    with pytest.raises(ValueError, match=message):
        decode_batch(checkpoint, prompts, **settings)


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_the_memory_check_uses_the_size_of_the_cache(tokenizer, architecture):
    """Use a head size that differs from hidden size / heads, as these models may have."""
    model = random_model(architecture, tokenizer, head_dim=16)
    cache = RaggedCache(model, 4, 50)
    cache.forward({2: Forward(layouts.causal([1, 2, 3]))})
    parts = [part for layer in cache._cache.layers for part in (layer.keys, layer.values)]
    assert {part.shape[2] for part in parts} == {50}  # a cache has at most its number of columns
    size = sum(part.nbytes for part in parts)
    needed = f"{size // 200 * 10**11 / 2**30:.1f} GiB"
    checkpoint = wrap("random", model, tokenizer)
    with pytest.raises(ValueError, match=needed) as error:
        Batch(checkpoint, 10**7, 10**4)
    *_, free, rows = re.findall(r"\d+\.\d+(?= GiB)|\d+(?=\.$)", str(error.value))
    free, rows = float(free), int(rows)
    assert rows == pytest.approx(free * 2**30 / (size // 200 * 10**4), rel=0.1)
    Batch(checkpoint, rows // 2, 10**4)  # nothing is allocated before the first forward
    with pytest.raises(ValueError, match="GiB"):
        Batch(checkpoint, rows * 2, 10**4)


def test_the_cache_grows_with_its_texts(tokenizer):
    """Allocate columns as texts grow, not all 5000 at once, and keep the stored ones."""
    model = random_model("llama", tokenizer, context=512)
    ids = torch.arange(5, 205).tolist()
    cache, engine = RaggedCache(model, 2, 5000), Engine(TransformersDecoder(model))
    room = []
    for start in range(0, 200, 40):
        layout = layouts.causal(ids[start : start + 40], past=start)
        logits = cache.forward({1: Forward(layout)})
        torch.testing.assert_close(logits, engine.forward(layout), atol=2e-5, rtol=2e-5)
        engine.commit(40)
        room.append(cache._cache.layers[0].keys.shape[2])
    assert room == [64, 128, 128, 256, 256]


def test_lossless_drafts_fewer_tokens_in_a_larger_batch(mars_tiny, checkpoint):
    sizes = {1: 9, 4: 9, 5: 5, 1024: 5, 1025: 3}
    assert {size: lossless_window(mars_tiny, size) for size in sizes} == sizes
    narrow = replace(mars_tiny, block_size=3)
    assert [lossless_window(narrow, size) for size in sizes] == [4, 4, 4, 4, 3]
    prompts = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS][:6]
    alone = [decode(mars_tiny, p, Request(mode="ar", max_new_tokens=60)).finish() for p in prompts]
    for size, window in ((3, 9), (6, 5), (64, 5)):  # at most one sequence per prompt
        batch = decode_batch(
            mars_tiny, prompts, Request(mode="lossless", max_new_tokens=60), size=size
        ).finish()
        for run, ar in zip(batch.runs, alone):
            check_tokens(mars_tiny, run, ar.token_ids)
        assert {run.settings.window for run in batch.runs} == {window}
        assert max(step.drafts for run in batch.runs for step in run.passes) == window - 1


def forwards(*counts: int, positions: Sequence[int]) -> list[SimpleNamespace]:
    """Return forwards with these numbers of accepted tokens and of positions."""
    return [SimpleNamespace(accepted=count, positions=each) for count, each in zip(counts, positions)]


def test_a_schedule_counts_the_positions_of_each_step():
    runs = [forwards(2, 1, 1, positions=[9, 6, 5]), forwards(1, 1, 1, positions=[8, 5, 5])]
    ragged = with_ragged_cache(["a", "b"], runs)
    assert ragged.positions == [18, 12, 10]
    # Nothing is committed: the second forward of a computes its 2 new tokens, the third computes 3.
    whole = with_block_cache(["a", "b"], runs, 99)
    assert whole.positions == [18, 12, 2 * max(5 + 2, 5 + 1)]
    # a fills its block and waits for b; two sequences commit 2 positions each, and keep their last tokens.
    runs = [forwards(3, 1, 1, positions=[9, 7, 5]), forwards(2, 1, 1, positions=[8, 6, 5])]
    block = with_block_cache(["a", "b"], runs, 2)
    assert block.positions == [18, 6, 4, 10, 6]
