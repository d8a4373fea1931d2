"""Batches: every row gives the tokens it gives alone."""

from dataclasses import replace

import pytest
from random_models import random_model

from mars_demo import checkpoints, tasks
from mars_demo.batching import Batch, decode_batch, lossless_window
from mars_demo.decoding import decode
from mars_demo.schedules import COMMIT, COMPUTE, FREE, WAIT

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
    {"mode": "mars", "tau": 0.2},
    {"mode": "mars", "tau": 0.0, "window": 5},
    {"mode": "lossless", "linear": False, "window": 9},
    {"mode": "lossless", "linear": True, "window": 4},
    {"mode": "jacobi"},
    {"mode": "speculative", "tau": 0.2},
]


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return checkpoints.wrap("random", random_model("llama", tokenizer, context=256), tokenizer)


@pytest.mark.parametrize("cache", ["cursor", 4, 16, "none"])
@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(map(str, settings.values())))
def test_every_row_gives_the_tokens_it_gives_alone(checkpoint, settings, size, cache):
    if settings["mode"] == "speculative":
        settings = settings | {"draft": checkpoints.truncated(checkpoint, 2)}
    alone = [decode(checkpoint, prompt, max_new_tokens=20, **settings).finish() for prompt in PROMPTS]
    kind = {"cache": "block", "cache_block": cache} if isinstance(cache, int) else {"cache": cache}
    batch = decode_batch(checkpoint, PROMPTS, size=size, max_new_tokens=20, **kind, **settings).finish()
    assert [run.token_ids for run in batch.runs] == [run.token_ids for run in alone]
    assert [run.stop for run in batch.runs] == [run.stop for run in alone]
    assert [len(run.passes) for run in batch.runs] == [run.forwards for run in alone]
    commits = [run.commits for run in batch.runs]
    assert all(commits) if cache == 4 else cache == 16 or not any(commits)


@pytest.mark.parametrize("size", [1, 3, 6])
def test_block_diffusion_batches_with_the_cursor_cache_alone(checkpoint, size):
    checkpoint = replace(checkpoint, objective="block-diffusion")
    settings = {"mode": "block-diffusion", "tau": 0.2, "max_new_tokens": 20}
    alone = [decode(checkpoint, prompt, **settings).finish().token_ids for prompt in PROMPTS]
    batch = decode_batch(checkpoint, PROMPTS, size=size, **settings).finish()
    assert [run.token_ids for run in batch.runs] == alone
    for cache in ("block", "none"):
        with pytest.raises(ValueError, match="allowed is the cursor cache"):
            decode_batch(checkpoint, PROMPTS, cache=cache, **settings)


@pytest.mark.parametrize("architecture", ["qwen2", "qwen3"])
def test_other_architectures_batch_too(tokenizer, architecture):
    model = random_model(architecture, tokenizer, context=256)
    checkpoint = checkpoints.wrap("random", model, tokenizer)
    alone = [decode(checkpoint, p, tau=0.1, max_new_tokens=16).finish().token_ids for p in PROMPTS]
    batch = decode_batch(checkpoint, PROMPTS, size=3, tau=0.1, max_new_tokens=16).finish()
    assert [run.token_ids for run in batch.runs] == alone


def test_rows_that_end_early_and_in_their_first_pass(mars_tiny):
    prompts = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
    settings = {"tau": 0.9, "max_new_tokens": 60}
    first = decode(mars_tiny, prompts[0], **settings)
    next(first)
    ended = checkpoints.Checkpoint(
        **{f: getattr(mars_tiny, f) for f in mars_tiny.__dataclass_fields__}
        | {"end_ids": mars_tiny.end_ids | {first.token_ids[0]}}
    )
    alone = [decode(ended, prompt, **settings).finish().token_ids for prompt in prompts]
    assert min(map(len, alone)) == 1
    for cache in ("cursor", "block", "none"):
        batch = decode_batch(ended, prompts, size=4, cache=cache, cache_block=8, **settings).finish()
        assert [run.token_ids for run in batch.runs] == alone


def test_nobody_waits_for_anybody_with_a_cursor(mars_tiny):
    prompts = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
    settings = {"tau": 0.9, "max_new_tokens": 80, "size": len(prompts)}
    cursor = decode_batch(mars_tiny, prompts, **settings).finish()
    block = decode_batch(mars_tiny, prompts, cache="block", cache_block=16, **settings).finish()
    none = decode_batch(mars_tiny, prompts, cache="none", **settings).finish()
    for done in (cursor, block, none):
        assert len(done.schedule.ms) == len(done.schedule.steps) == done.batch.forwards
        assert all(ms > 0 for ms in done.schedule.ms)
        for row, run in enumerate(done.runs):  # a record per row, and its turns in the schedule
            turns = [step[row] for step in done.schedule.steps]
            assert turns.count(COMPUTE) == len(run.passes)
            assert turns.count(COMMIT) == run.commits  # a commit is a forward of every row that takes part
            assert turns.count(COMPUTE) + turns.count(COMMIT) == run.forwards
            again = type(run).read(list(run.lines()))
            assert (again.token_ids, again.forwards) == (run.token_ids, run.forwards)
            assert set(turns[len(turns) - turns[::-1].index(COMPUTE) :]) <= {FREE}  # it has left
    assert cursor.schedule.share(WAIT) == 0 < block.schedule.share(WAIT)
    assert cursor.batch.forwards == none.batch.forwards < block.batch.forwards
    assert cursor.batch.positions < block.batch.positions < none.batch.positions


def test_a_finished_row_makes_room_at_once(checkpoint):
    settings = {"mode": "ar", "max_new_tokens": 12, "size": 2}
    lengths = [decode(checkpoint, p, mode="ar", max_new_tokens=12).finish().forwards for p in PROMPTS]
    batch = decode_batch(checkpoint, PROMPTS, **settings).finish()
    assert batch.batch.forwards <= sum(lengths) // 2 + max(lengths)


@pytest.mark.parametrize(
    ("prompts", "settings", "sentence"),
    [
        ([], {}, "batch is empty"),
        (["hi"], {"size": 0}, "batch size must be at least 1"),
        (["hi"], {"cache_block": 0}, "at least 1 position"),
        (["hi"], {"cache": "big"}, "No cache called 'big': allowed are cursor, block, none"),
        (["hi", "  "], {}, "Prompt 2: The prompt is empty"),
        (["hi", "word " * 900], {}, "Prompt 2: The prompt has"),
        (["hi"], {"tau": 2}, "Prompt 1: τ must be"),
    ],
)
def test_bad_input_gets_a_sentence(checkpoint, prompts, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        decode_batch(checkpoint, prompts, **settings)


def test_more_rows_than_memory_holds_get_a_sentence(checkpoint):
    with pytest.raises(ValueError, match=r"needs .* GiB of memory and .* GiB are free: allowed are up to"):
        Batch(checkpoint, 10**7, 10**4)


def test_lossless_drafts_less_in_a_larger_batch(mars_tiny):
    windows = [lossless_window(mars_tiny, size) for size in (1, 2, 4, 8, 16, 32, 64)]
    assert windows == sorted(windows, reverse=True)
    assert windows[0] == 9 and windows[-1] >= 2
    prompts = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS][:3]
    alone = [decode(mars_tiny, p, mode="ar", max_new_tokens=60).finish().token_ids for p in prompts]
    found = decode_batch(mars_tiny, prompts, mode="lossless", size=3, max_new_tokens=60).finish()
    assert [run.token_ids for run in found.runs] == alone
    assert {run.settings.window for run in found.runs} == {lossless_window(mars_tiny, 3)}
