"""Methods that are timed take turns, so that a slow moment falls on all of them."""

from benchmarks.turns import take_turns


def test_methods_take_turns_input_by_input_and_first_calls_are_not_counted():
    calls = []

    def method(name):
        return lambda value: calls.append(f"{name}{value}") or f"{name}{value}"

    timed = take_turns({"a": method("a"), "b": method("b")}, [1, 2], rounds=2)
    one_round = ["a1", "b1", "a2", "b2"]
    assert calls == ["a1", "b1", *one_round, *one_round]
    assert timed["a"].found == ["a1", "a2"]
    assert len(timed["b"].seconds) == 2 and all(seconds > 0 for seconds in timed["b"].seconds)
