"""Batches: every row gives the tokens it gives alone."""

import pytest
from random_models import random_model

from mars_demo import checkpoints, tasks
from mars_demo.batching import decode_batch
from mars_demo.decoding import decode
from mars_demo.schedules import WAIT

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
    {"mode": "lossless", "linear": False},
    {"mode": "lossless", "linear": True, "window": 4},
    {"mode": "jacobi"},
]


@pytest.fixture(scope="module")
def checkpoint(tokenizer):
    return checkpoints.wrap("random", random_model("llama", tokenizer, context=256), tokenizer)


@pytest.mark.parametrize("cache", [None, 4, 16])
@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_every_row_gives_the_tokens_it_gives_alone(checkpoint, settings, size, cache):
    alone = [decode(checkpoint, prompt, max_new_tokens=20, **settings).finish() for prompt in PROMPTS]
    batch = decode_batch(
        checkpoint, PROMPTS, size=size, cache_block=cache, max_new_tokens=20, **settings
    ).finish()
    assert [run.token_ids for run in batch.runs] == [run.token_ids for run in alone]
    assert [run.stop for run in batch.runs] == [run.stop for run in alone]
    assert [run.forwards for run in batch.runs] == [run.forwards for run in alone]


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
    for cache in (None, 8):
        batch = decode_batch(ended, prompts, size=4, cache_block=cache, **settings).finish()
        assert [run.token_ids for run in batch.runs] == alone


def test_nobody_waits_for_anybody_with_a_cursor(mars_tiny):
    prompts = [tasks.held_out(name, 1)[0].prompt for name in tasks.TASKS]
    settings = {"tau": 0.9, "max_new_tokens": 80, "size": len(prompts)}
    cursor = decode_batch(mars_tiny, prompts, **settings).finish()
    block = decode_batch(mars_tiny, prompts, cache_block=16, **settings).finish()
    assert cursor.schedule.share(WAIT) == 0 < block.schedule.share(WAIT)
    assert cursor.forwards < block.forwards
    assert cursor.positions < block.positions


def test_a_finished_row_makes_room_at_once(checkpoint):
    settings = {"mode": "ar", "max_new_tokens": 12, "size": 2}
    lengths = [decode(checkpoint, p, mode="ar", max_new_tokens=12).finish().forwards for p in PROMPTS]
    batch = decode_batch(checkpoint, PROMPTS, **settings).finish()
    assert batch.forwards <= sum(lengths) // 2 + max(lengths)


@pytest.mark.parametrize(
    ("prompts", "settings", "sentence"),
    [
        ([], {}, "batch is empty"),
        (["hi"], {"size": 0}, "batch size must be at least 1"),
        (["hi"], {"cache_block": 0}, "at least 1 position"),
        (["hi", "  "], {}, "Prompt 2: The prompt is empty"),
        (["hi", "word " * 900], {}, "Prompt 2: The prompt has"),
        (["hi"], {"tau": 2}, "Prompt 1: τ must be"),
    ],
)
def test_bad_input_gets_a_sentence(checkpoint, prompts, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        decode_batch(checkpoint, prompts, **settings)
