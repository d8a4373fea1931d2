"""The benchmark of single prompts: its sample, its counts and its tables."""

import json
from collections import Counter

import pytest

from benchmarks import speed
from benchmarks.frontier import SETS
from benchmarks.timing import Timed
from mars_demo import tasks
from mars_demo.core.names import CHAT, TINY
from mars_demo.evaluation.task_sets import questions


@pytest.mark.parametrize(("model", "kinds"), [(TINY, tasks.TASKS), (CHAT, tasks.SKILLS)])
def test_every_task_has_as_many_prompts(model, kinds):
    count = speed.PROMPTS[model]
    asked = Counter(question.grade.args[0].task for question in questions(SETS[model][0], count))
    assert asked == dict.fromkeys(kinds, count // len(kinds))


def test_methods_are_graded_and_compared_with_ar(tmp_path):
    output = tmp_path / "speed.json"
    speed.measure(TINY, prompts=2, rounds=2, max_new_tokens=160, output=output)
    measured = json.loads(output.read_text())
    rows = {row["method"]: row for row in measured["rows"]}
    ar, generate = rows[speed.AR], rows["transformers generate"]
    assert all(len(row["seconds"]) == 2 for row in rows.values())
    assert (ar["equal"], ar["forwards"], ar["positions"]) == (2, ar["tokens"], ar["tokens"] - 2)
    assert ar["right"] == 2 and rows[speed.LOSSLESS]["equal"] == 2
    names = ("tokens", "forwards", "positions", "right", "equal")
    assert [generate[name] for name in names] == [ar[name] for name in names]
    assert dict(measured["costs"]["forwards"])[1] > 0
    assert "100.0%" in speed.table(output) and "2 held-out prompts" in speed.table(output)


def test_an_answer_of_another_library_is_right_only_with_its_end(mars_tiny):
    [question] = questions("units", 1)
    text = question.grade.args[0].answer
    ids = mars_tiny.tokenizer.encode(text, add_special_tokens=False)
    truncated = speed.counted(mars_tiny, question, ids)
    ended = speed.counted(mars_tiny, question, [*ids, min(mars_tiny.end_ids)])
    assert (truncated["right"], ended["right"]) == (False, True)
    assert len(ended["forwards"]) == len(ids) + 1


def test_costs_are_means_of_the_forwards_after_the_prompt():
    def answer(*forwards: tuple[int, float | None]) -> dict:
        return {"forwards": forwards}

    timed = {
        speed.AR: Timed([9.0, 0.038], [answer((10, 8.0), *[(1, 2.0)] * 5), answer((14, 12.0), (1, 8.0))]),
        "other library": Timed([1.0], [answer(*[(1, None)] * 9)]),
        "mars": Timed([1.0], [answer((18, 99.0), *[(9, 3.0)] * 4, (9, 8.0), (17, 5.0), *[(81, 9.0)] * 5)]),
    }
    assert speed.costs(timed) == {"prompt": [12, 10.0], "forwards": [(1, 3.0), (9, 4.0)]}


def test_cells_are_of_one_row():
    rows = [
        {"method": speed.AR, "seconds": [2.0, 4.0], "tokens": 20, "forwards": 20, "positions": 18},
        {"method": speed.MARS, "seconds": [1.1, 1.1], "tokens": 22, "forwards": 11, "positions": 45},
    ]
    rows[0] |= {"right": 2, "equal": 2}
    rows[1] |= {"right": 1, "equal": 0}
    columns = {
        "tokens per forward": "2.00",
        "positions per forward": "5.0",
        "accuracy": "50.0%",
        "equal to AR's": "0",
        "as fast as AR": "3.00× (2.00–4.00)",
    }
    assert speed.cells({"prompts": 2, "rows": rows}, *columns)[speed.MARS] == columns
