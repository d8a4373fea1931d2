"""Drafts copied from the text: the index against a search of the whole text; answers stay the same."""

import itertools
import random
from dataclasses import replace

import pytest
import without_cache
from greedy import check_tokens, generate
from random_models import random_model

from mars_demo.decoding.copying import Copying, Lookup, expected
from mars_demo.decoding.decode import decode
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.request import Request
from mars_demo.models.checkpoint import wrap

QUOTE = "Copy this: the red fox saw the old owl, and the old owl saw the red fox; the red fox saw"


@pytest.fixture(scope="module")
def looping(tokenizer):
    """A random model that says hardly more than eight tokens, each mostly because of the one before it: it
    repeats itself often, and seldom for long."""
    model = random_model("llama", tokenizer, context=256)
    for name, weight in model.named_parameters():
        if "o_proj" in name or "down_proj" in name:
            weight.data *= 0.05
    head = model.get_output_embeddings().weight.data
    head[:20] *= 1e-3
    head[28:] *= 1e-3
    return wrap("looping", model, tokenizer)


@pytest.mark.parametrize("seed", range(8))
def test_the_index_finds_what_a_search_of_the_whole_text_finds(seed):
    rng = random.Random(seed)
    size, start = [1, 2, 3, 6, 40][seed % 5], rng.randrange(12)
    ids = [rng.randrange(size) for _ in range(120)]
    lookup = Lookup(ids[:start])
    for end in range(start, len(ids)):
        found = without_cache.earlier(ids[:end])
        assert lookup.find() == found
        match, place = found
        if match:
            long = ids[:end]
            for at in range(place, place + 9):
                long.append(long[at])  # token by token, into what it has just written
            assert lookup.follow(place, 9) == long[end:]
        lookup.extend(ids[end : end + 1])


def read(*tokens: int, score: float = 0.9) -> list[Reading]:
    return [Reading(token, score, [token], [score]) for token in tokens]


def lengths(hold: bool, forwards: int = 8) -> list[int]:
    """Return how many tokens are copied each time that the same three come again."""
    copying, found = Copying([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2], 16), []
    draft = copying.next_draft(read(3), [])
    for new in range(100, 100 + forwards):
        found.append(len(draft))
        held = [reading.token for reading in draft] if hold else []
        assert (
            copying.next_draft(read(*held, new), [], len(draft)) == []
        )  # nothing has followed a new token
        draft = copying.next_draft(read(1, 2, 3), [])
    return found


def test_copies_that_hold_grow_and_copies_that_fail_end():
    growing, failing = lengths(True), lengths(False, 16)
    assert growing[0] == failing[0] == 2
    assert growing == sorted(growing) and growing[-1] == 16
    assert failing == sorted(failing, reverse=True) and failing[-1] == 0


def test_the_draft_of_which_more_should_hold_is_taken():
    assert expected(read(1, 2, 3, score=0.5)) == pytest.approx(0.5 + 0.25 + 0.125)
    assert expected([]) == 0
    for score, source in ((0.9, "model"), (0.3, "copy")):
        copying = Copying([1, 2, 3, 4, 5, 1, 2], 16)
        draft = copying.next_draft(read(3), read(7, 8, 9, score=score))
        assert {reading.source for reading in draft} == {source}


def is_copy(slot) -> bool:
    return slot.source == "copy"


@pytest.mark.parametrize(("window", "linear"), [(1, True), (4, True), (4, False)])
def test_copies_leave_the_answer_and_save_forwards(looping, window, linear):
    request = Request("lossless", window=window, linear=linear, max_new_tokens=80)
    run = decode(looping, QUOTE, request).finish()
    check_tokens(looping, run, generate(looping, QUOTE, 80))
    plain = without_cache.lossless(looping, QUOTE, window, linear, 80)
    without_cache.check(decode(looping, QUOTE, request), plain)
    assert run.sources["copy"] > 20
    # Some copies hold wholly, some in part, and some not at all.
    copied = [step for before, step in itertools.pairwise(run.passes) if is_copy(before.slots[-1])]
    assert {(step.verified > 0, step.verified < step.drafts) for step in copied} == {
        (True, True),
        (True, False),
        (False, True),
    }
    request = replace(request, copies=0)
    alone = decode(looping, QUOTE, request).finish()
    assert alone.sources["copy"] == 0 and alone.tokens_per_forward < run.tokens_per_forward
    assert max(step.drafts for step in run.passes) > 4
    assert max(step.drafts for step in alone.passes) == window - 1


def test_the_sources_are_those_of_the_drafts_that_held(looping):
    run = decode(looping, QUOTE, Request("lossless", max_new_tokens=80)).finish()
    for before, step in itertools.pairwise(run.passes):
        drafts = before.slots[before.accepted :][: step.verified]
        assert [slot.source for slot in step.slots[: step.verified]] == [slot.source for slot in drafts]
        assert [slot.id for slot in step.slots[: step.verified]] == [slot.id for slot in drafts]
        if step.accepted > step.verified:
            assert step.slots[step.verified].source == "model"
    assert sum(run.sources.values()) == run.tokens


@pytest.mark.parametrize("copies", [-1, 17])
def test_a_copy_has_at_most_sixteen_tokens(copies):
    with pytest.raises(ValueError, match=rf"copies.*\b16\b.*{copies}"):
        Request(copies=copies)
