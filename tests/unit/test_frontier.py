"""The points of a sweep: figures, intervals and records."""

import json
import math
import random
import statistics
from itertools import product

import pytest

from mars_demo.evaluation import bootstrap, frontier
from mars_demo.evaluation.frontier import AR, Frontier, Outcome, Point, Setting

PROMPTS = 40
SETTINGS = [
    AR,
    Setting("lossless"),
    *(Setting("mars", name, tau) for name, tau in product(("entropy", "probability"), (0.5, 0.95))),
]


def point(setting: Setting, seconds: float = 8.0) -> Point:
    """Return a point with made-up outcomes, which depend on the setting."""
    rng = random.Random(setting.title)
    outcomes = [
        Outcome(number, rng.random() < 0.8, rng.randint(20, 60), rng.randint(5, 20), None, f"<b>{number}")
        for number in range(PROMPTS)
    ]
    return Point(setting, tuple(outcomes), seconds)


@pytest.fixture(scope="module")
def swept() -> Frontier:
    points = [point(setting, 10.0 - number) for number, setting in enumerate(SETTINGS)]
    prompts = tuple(f"Prompt {number}" for number in range(PROMPTS))
    return Frontier("a <model>", "units", "Units", 8, "a machine", prompts, tuple(points))


# ------------------------------------------------------------------------------- intervals


def test_an_interval_is_that_of_a_plain_bootstrap():
    rng = random.Random(1)
    tokens = [rng.randint(10, 90) for _ in range(60)]
    forwards = [rng.randint(3, 20) for _ in tokens]
    ratios = []
    for _ in range(4000):
        drawn = rng.choices(range(len(tokens)), k=len(tokens))
        ratios.append(sum(tokens[i] for i in drawn) / sum(forwards[i] for i in drawn))
    cuts = statistics.quantiles(ratios, n=40)
    low, high = bootstrap.interval(tokens, forwards)
    width = cuts[-1] - cuts[0]
    assert low == pytest.approx(cuts[0], abs=0.08 * width)
    assert high == pytest.approx(cuts[-1], abs=0.08 * width)


def test_intervals_are_reproducible_and_empty_for_equal_values():
    parts = [3, 5, 8, 1]
    assert bootstrap.interval(parts, [1, 2, 3, 4]) == bootstrap.interval(parts, [1, 2, 3, 4])
    assert bootstrap.interval([1] * 9, [1] * 9) == (1.0, 1.0)
    assert bootstrap.interval([6], [3]) == (2.0, 2.0)


# -------------------------------------------------------------------------- settings and points


def test_the_figures_of_a_point_are_sums_over_prompts(swept):
    one = swept.points[2]
    assert one.n == PROMPTS and one.accuracy == sum(o.right for o in one.outcomes) / PROMPTS
    tokens, forwards = (sum(getattr(o, name) for o in one.outcomes) for name in ("tokens", "forwards"))
    assert one.tokens_per_forward == tokens / forwards
    assert one.seconds_per_answer == 8.0 / PROMPTS and swept.faster(one) == 10 / 8
    assert [o.number for o in one.wrong] == [o.number for o in one.outcomes if not o.right]
    for value, (low, high) in (
        (one.accuracy, one.accuracy_interval),
        (one.tokens_per_forward, one.tokens_per_forward_interval),
    ):
        assert low < value < high


def test_a_grid_is_parsed():
    assert frontier.parse_taus("0.5, 0.95,1,0.5") == [1.0, 0.95, 0.5]
    for text in ("", "a", "0.9;0.8", "0.9,,0.8", "nan", "1e400", "2"):
        with pytest.raises(ValueError, match="0.*1"):
            frontier.parse_taus(text)


# --------------------------------------------------------------------------------------- records


def test_a_record_survives_a_round_trip(swept):
    record = json.loads(json.dumps(swept.record()))
    read = Frontier.read(record)
    assert read.record() == record
    for ours, own in zip(read.points, swept.points, strict=True):
        assert ours.setting == own.setting and ours.seconds == own.seconds
        assert ours.accuracy_interval == own.accuracy_interval
        assert [o.text for o in ours.wrong] == [o.text for o in own.wrong]
        assert all(o.text is None for o in ours.outcomes if o.right)
    bare = Frontier.read(swept.record(texts=False))
    assert all(o.text is None for p in bare.points for o in p.outcomes)
    assert [p.accuracy for p in bare.points] == [p.accuracy for p in swept.points]


@pytest.mark.parametrize(
    "change",
    [
        {"points": 3},
        {"points": [{}]},
        {"prompts": ["one"]},
        {"model": None, "points": None},
        {"right": "10"},
        {"tokens": "a b"},
        {"seconds": math.nan},
        {"mode": "fast"},
        {"tau": 2},
    ],
)
def test_a_broken_record_is_refused(swept, change):
    record = swept.record()
    if not change.keys() <= record.keys():
        record["points"][2] |= change
    else:
        record |= change
    with pytest.raises(ValueError, match="record"):
        Frontier.read(record)


def test_the_table_has_a_row_per_point(swept):
    frame = swept.frame()
    assert len(frame) == len(SETTINGS) and list(frame["n"].unique()) == [PROMPTS]
    row, own = frame.iloc[4], swept.points[4]
    assert (row["mode"], row["criterion"], row["tau"]) == ("mars", "probability", 0.5)
    assert (row["accuracy_low"], row["accuracy_high"]) == own.accuracy_interval
    assert row["faster_than_ar"] == 10 / 6
    assert frame.to_csv(index=False).splitlines()[1].startswith("a <model>,units,ar,,,40,")
