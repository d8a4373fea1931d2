"""Masks, compared cell by cell with the rules of the method."""

import pytest

from mars_demo.core import layout as layouts

MASK = 2


def test_causal_positions_see_themselves_and_earlier_ones():
    layout = layouts.causal([5, 6, 7], past=2)
    assert layout.ids.tolist() == [[5, 6, 7]]
    assert layout.positions.tolist() == [[2, 3, 4]]
    assert layout.visible[0].int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("drafts", [0, 1, 3])
@pytest.mark.parametrize("masks", [0, 1, 4])
@pytest.mark.parametrize("past", [0, 5])
def test_verification_groups_see_exactly_their_prefix(linear, drafts, masks, past):
    draft_ids = list(range(20, 20 + drafts))
    layout = layouts.verification([9], draft_ids, masks, MASK, past, linear)
    # (position, kind) of every input: kind None for a real token, else its group
    inputs = [(past + i, None) for i in range(1 + drafts)]
    for group in [drafts] if linear else range(drafts + 1):
        inputs += [(past + 1 + group + i, group) for i in range(masks)]
    assert layout.positions[0].tolist() == [position for position, _ in inputs]
    assert layout.ids[0].tolist() == [9, *draft_ids, *[MASK] * (len(inputs) - 1 - drafts)]
    for query, (query_position, query_group) in enumerate(inputs):
        assert layout.visible[0, query, :past].all()
        for key, (key_position, key_group) in enumerate(inputs):
            if query_group is None or key_group is None:
                # A group sees the token and the drafts of its prefix; a real token sees no mask.
                last = query_position if query_group is None else past + query_group
                expected = key_group is None and key_position <= last
            else:
                expected = key_group == query_group and key_position <= query_position
            assert layout.visible[0, query, past + key] == expected, (query, key)
