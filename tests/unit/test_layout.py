"""The masks, compared cell by cell with what the method says, written as plainly as can be."""

import random

import pytest
import torch

from mars_demo.decoding import layout as layouts
from mars_demo.decoding.denoising import denoising
from mars_demo.decoding.layout import NO_GROUP, Role
from mars_demo.training.two_streams import CLEAN, block_starts, two_streams

MASK = 2


def test_causal_sees_itself_and_everything_before_it():
    layout = layouts.causal([5, 6, 7], past=2)
    assert layout.ids.tolist() == [[5, 6, 7]]
    assert layout.positions.tolist() == [[2, 3, 4]]
    assert layout.visible[0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_window_is_the_tokens_and_the_masks_after_them():
    layout = layouts.window([5, 6], masks=2, mask_id=MASK, past=3)
    assert layout.ids.tolist() == [[5, 6, MASK, MASK]]
    assert layout.positions.tolist() == [[3, 4, 5, 6]]
    assert torch.equal(layout.visible, layouts.causal([5, 6, MASK, MASK], past=3).visible)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("drafts", [0, 1, 3])
@pytest.mark.parametrize("masks", [0, 1, 4])
@pytest.mark.parametrize("past", [0, 5])
def test_verification_groups_see_exactly_the_prefix_they_go_on_from(linear, drafts, masks, past):
    draft_ids = list(range(20, 20 + drafts))
    layout = layouts.verification([9], draft_ids, masks, MASK, past, linear)
    # (position, kind) of every input: kind None for a real token, else the group it belongs to
    inputs = [(past + i, None) for i in range(1 + drafts)]
    for group in [drafts] if linear else range(drafts + 1):
        inputs += [(past + 1 + group + i, group) for i in range(masks)]
    assert layout.positions[0].tolist() == [position for position, _ in inputs]
    assert layout.ids[0].tolist() == [9, *draft_ids, *[MASK] * (len(inputs) - 1 - drafts)]
    for query, (query_position, query_group) in enumerate(inputs):
        assert layout.visible[0, query, :past].all()
        for key, (key_position, key_group) in enumerate(inputs):
            if query_group is None or key_group is None:
                # A group sees the token and the drafts up to its own prefix, a real token no mask at all.
                last = query_position if query_group is None else past + query_group
                expected = key_group is None and key_position <= last
            else:
                expected = key_group == query_group and key_position <= query_position
            assert layout.visible[0, query, past + key] == expected, (query, key)


def test_blocks_are_counted_from_the_start_of_each_response_and_shifted_by_its_phase():
    response = [False, False, True, True, True, True, True, False, True, True, True]
    assert block_starts(response, 2, [0, 0]) == [-1, -1, 2, 2, 4, 4, 6, -1, 8, 8, 10]
    assert block_starts(response, 2, [1, 1]) == [-1, -1, 2, 3, 3, 5, 5, -1, 8, 9, 9]
    assert block_starts(response, 4, [3, 2]) == [-1, -1, 2, 3, 3, 3, 3, -1, 8, 8, 10]


def two_streams_by_hand(length, real, noisy, starts, padded):
    """Who sees whom, cell by cell: clean → clean causally; a mask → clean before its block, and masks of
    its own block up to itself; padding → itself."""
    inputs = [("clean" if t < real else "pad", t, None) for t in range(length)]
    inputs += [("noisy", p, s) for p, s in zip(noisy, starts)]
    inputs += [("pad", 0, None)] * (padded - len(noisy))
    rows = []
    for q, (query, query_position, query_block) in enumerate(inputs):
        row = []
        for k, (key, key_position, key_block) in enumerate(inputs):
            if "pad" in (query, key):
                row.append(q == k)
            elif query == "clean":
                row.append(key == "clean" and key_position <= query_position)
            elif key == "clean":
                row.append(key_position < query_block)
            else:
                row.append(query_block == key_block and key_position <= query_position)
        rows.append(row)
    return rows


@pytest.mark.parametrize(
    ("block_size", "seed"), [(1, 0), (2, 1), (3, 2), (4, 0), (5, 1), (6, 2), (7, 0), (8, 1)]
)
def test_two_streams_match_the_rule_cell_by_cell(block_size, seed):
    rng = random.Random(f"{block_size}-{seed}")
    length = 24
    reals, noisy, starts = [], [], []
    for _ in range(3):
        real = rng.randint(2, length)
        response_start = rng.randrange(1, real)
        response = [response_start <= t < real for t in range(real)]
        start = block_starts(response, block_size, [rng.randrange(block_size)])
        kept = [t for t in range(real - 1) if response[t] and response[t + 1]]
        reals.append(real)
        noisy.append(kept)
        starts.append([start[t] for t in kept])
    padded = max(map(len, noisy))
    fill = lambda rows, value: torch.tensor(  # noqa: E731
        [[*row, *[value] * (padded - len(row))] for row in rows], dtype=torch.long
    )
    layout = two_streams(
        torch.full((3, length), 7),
        torch.tensor(reals),
        torch.full((3, padded), MASK),
        fill(noisy, 0),
        fill(starts, CLEAN),
    ).layout()
    for row in range(3):
        expected = two_streams_by_hand(length, reals[row], noisy[row], starts[row], padded)
        assert layout.visible[row].tolist() == expected
        assert layout.positions[row].tolist() == [
            *range(length), *noisy[row], *[0] * (padded - len(noisy[row]))
        ]  # fmt: skip
        assert layout.ids[row, length:].tolist() == [MASK] * padded


def told(layout, row: int = 0) -> list[tuple]:
    """What a layout says of each of its positions."""
    assert layout.roles.shape == layout.groups.shape == layout.ids.shape
    return [(Role(r).name, g) for r, g in zip(layout.roles[row].tolist(), layout.groups[row].tolist())]


def test_positions_of_inference_say_what_they_are():
    none = NO_GROUP
    assert told(layouts.window([5, 6], 2, MASK)) == [("PROMPT", none)] * 2 + [("MASK", 0)] * 2
    assert told(layouts.window([5], 1, MASK, past=3)) == [("NEW", none), ("MASK", 0)]
    assert told(layouts.causal([5], 3, drafts=[7, 8])) == [("NEW", none)] + [("DRAFT", none)] * 2
    real = [("NEW", none), ("DRAFT", none), ("DRAFT", none)]
    grouped = layouts.verification([9], [7, 8], 2, MASK, 4)
    assert told(grouped) == real + [("MASK", group) for group in (0, 0, 1, 1, 2, 2)]
    assert told(layouts.verification([9], [7, 8], 2, MASK, 4, linear=True)) == real + [("MASK", 2)] * 2
    block = denoising([9], [7, MASK], past=4, causal_until=0, mask_id=MASK)
    assert told(block) == [("NEW", none), ("NEW", 0), ("MASK", 0)]


def test_a_layout_after_another_is_the_forward_of_both():
    first, then = layouts.causal([5, 6], past=3), layouts.window([7], 2, MASK, past=5)
    joined = then.after(first)
    whole = layouts.window([5, 6, 7], 2, MASK, past=3)
    for name in ("ids", "positions", "visible", "roles", "groups"):
        assert torch.equal(getattr(joined, name), getattr(whole, name)), name


def test_positions_of_training_say_what_they_are():
    """Two texts; the second has fewer clean and fewer noisy positions."""
    layout = two_streams(
        clean=torch.tensor([[1, 3, 4, 5, 6], [1, 3, 4, 0, 0]]),
        lengths=torch.tensor([5, 3]),
        noisy=torch.full((2, 3), MASK),
        noisy_positions=torch.tensor([[1, 2, 3], [1, 0, 0]]),
        starts=torch.tensor([[1, 1, 3], [1, CLEAN, CLEAN]]),
    ).layout()
    none = NO_GROUP
    assert told(layout) == [("CLEAN", none)] * 5 + [("NOISY", 0), ("NOISY", 0), ("NOISY", 1)]
    clean = [("CLEAN", none)] * 3 + [("PADDING", none)] * 2
    assert told(layout, 1) == clean + [("NOISY", 0)] + [("PADDING", none)] * 2
