"""Mask pictures, compared cell by cell with the rules."""

import json
from types import SimpleNamespace

import pytest
import torch

from mars_demo.core.grammar import Grammar
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.runtime.engine import Engine
from mars_demo.ui import masks
from mars_demo.ui.masks import MOST_CELLS, Sentence
from mars_demo.ui.tabs import mask as tab

MASK = 2
SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


def name(token: int) -> str:
    return f"<{token}>"


def training(kind, ids, prompt, block_size, seed=None):
    sentence = Sentence(ids, MASK, name, prompt=prompt, block_size=block_size, seed=seed)
    return masks.draw_mask(kind, sentence)


def test_the_training_mask_follows_the_rule():
    """Clean tokens see earlier ones; masks see the clean tokens before their block, and it causally."""
    pictures = [training("mars", list(range(10, 18)), 2, 3) for _ in range(9)]
    assert [cell.position for cell in pictures[0].rows] == [0, 1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6]
    expected = [
        "1000000000000",
        "1100000000000",
        "1110000000000",
        "1111000000000",
        "1111100000000",
        "1111110000000",
        "1111111000000",
        "1111111100000",
        "1100000010000",
        "1100000011000",
        "1100000011100",
        "1111100000010",
        "1111100000011",
    ]
    assert all(picture.visible == expected for picture in pictures)  # no block phase is random


def test_rows_have_their_block_target_and_offset():
    picture = training("mars", list(range(10, 22)), 4, 3, None)
    noisy = [cell for cell in picture.rows if cell.stream == "noisy"]
    assert [cell.position for cell in noisy] == list(range(4, 11))
    assert [cell.block for cell in noisy] == [1, 1, 1, 2, 2, 2, 3]
    assert [cell.target for cell in noisy] == [f"<{10 + p + 1}>" for p in range(4, 11)]
    assert [cell.offset for cell in noisy] == [2, 3, 4, 2, 3, 4, 2]
    assert {cell.label for cell in noisy} == {"MASK"}


def test_a_block_diffusion_mask_predicts_its_own_position():
    picture = training("block-diffusion", list(range(10, 22)), 4, 4)
    again = [training("block-diffusion", list(range(10, 22)), 4, 4) for _ in range(5)]
    assert {other.line() for other in again} == {picture.line()}  # a redrawn picture stays the same
    masks = [cell for cell in picture.rows if cell.label == "MASK"]
    assert masks and all(cell.target == f"<{10 + cell.position}>" for cell in masks)


@pytest.mark.parametrize("grammar", [None, Grammar("json", SCHEMA), Grammar("choice", "The only one.")])
@pytest.mark.parametrize(
    ("mode", "linear"), [("ar", True), ("mars", True), ("lossless", True), ("lossless", False)]
)
def test_the_picture_of_a_recorded_forward_is_its_actual_mask(
    mars_tiny, monkeypatch, mode, linear, grammar
):
    ran = []
    forward = Engine.forward

    def watched(self, layout, *arguments):
        ran.append(layout)
        return forward(self, layout, *arguments)

    monkeypatch.setattr(Engine, "forward", watched)
    prompt = "How many meters is 3 kilometers? " * 3
    run = decode(
        mars_tiny,
        prompt,
        Request(mode=mode, window=1 if mode == "ar" else 3, linear=linear, grammar=grammar),
    ).finish()
    assert grammar is None or run.sources["forced"]
    if mode == "lossless" and not grammar:
        assert any(slot.source == "copy" for step in run.passes for slot in step.slots)
    for index, layout in enumerate(ran):
        picture = masks.of_pass(run, index + 1, mars_tiny)
        assert torch.equal(picture.layout.ids, layout.ids)
        assert torch.equal(picture.layout.positions, layout.positions)
        assert torch.equal(picture.layout.visible, layout.visible)


def test_a_record_without_its_guesses_is_not_drawn(mars_tiny):
    run = decode(mars_tiny, "How many apples?", Request(mode="jacobi", max_new_tokens=8)).finish()
    with pytest.raises(ValueError, match="ar, mars and lossless"):
        masks.of_pass(run, 1, mars_tiny)


@pytest.mark.parametrize(
    ("line", "changes", "number", "words"),
    [
        (0, {"cached_tokens": 1000}, 1, "cached tokens"),
        (1, {"positions": 1}, 1, "new tokens"),
        (1, {"positions": MOST_CELLS}, 1, "too large"),
        (-1, {"commits": 1}, 3, "no forward 3"),  # a commit is a forward without a pass
        (0, {}, "1", "no forward"),
    ],
)
def test_hostile_records_are_refused(mars_tiny, line, changes, number, words):
    run = decode(mars_tiny, "How many apples?", Request("mars", tau=1.0, max_new_tokens=2)).finish()
    lines = [json.loads(text) for text in run.lines()]
    lines[line] |= changes
    event = SimpleNamespace(record="\n".join(map(json.dumps, lines)), number=number)
    *_, picture, _ = tab.show_pass(event)
    assert words in json.loads(picture)["error"]
