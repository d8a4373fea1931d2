"""The checks of verifiable instructions."""

import pytest

from mars_demo.tasks import instructions


def test_there_are_enough_instructions_and_all_checks_are_known():
    bundled = instructions.instructions()
    assert len(bundled) >= 150
    assert len({instruction.prompt for instruction in bundled}) == len(bundled)
    for instruction in bundled:
        assert instruction.checks and set(instruction.checks) <= set(instructions.CHECKS)
        assert not instruction.holds("")


@pytest.mark.parametrize(
    ("name", "value", "right", "wrong"),
    [
        ("includes", ["8"], "You have 8 apples.", "You have 18 apples, or 8.5."),
        ("includes", ["Paris"], "It is paris, of course.", "It is London."),
        ("includes", ["def", "+"], "def f(a, b): return a + b", "def f(a, b): return a - b"),
        ("includes_exact", ["HELLO"], "HELLO", "Hello"),
        ("excludes", ["big"], "An elephant is bigger than a cow.", "A big elephant."),
        ("one_of", ["7", "seven"], "There are seven.", "There are 17."),
        ("max_words", 3, "Well, it's positive", "It is a positive review"),
        ("min_words", 4, "one two three four", "one two three"),
        ("max_sentences", 1, "The sun is 4.6 billion years old.", "It is hot. It shines."),
        ("items", 3, "Sure:\n1. a\n2. b\n3. c", "- a\n- b"),
        ("starts_with", "Dear", "  Dear Ann, thanks.", "Hello, dear."),
    ],
)
def test_each_check_passes_right_answers_and_fails_wrong_ones(name, value, right, wrong):
    assert instructions.CHECKS[name](right, value)
    assert not instructions.CHECKS[name](wrong, value)
