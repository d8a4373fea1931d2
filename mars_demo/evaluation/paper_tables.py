"""The paper's tables, and what this project has measured of each."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pandas import DataFrame

from mars_demo.assets import read_json
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier
from mars_demo.evaluation.frontier import Point as Measured
from mars_demo.tasks import TASKS

PAPER = read_json("paper_tables.json")
# Each of the paper's benchmarks with its task and metric in the lm-evaluation-harness.
HARNESS = {
    "IFEval": ("ifeval", "prompt_level_strict_acc,none"),
    "BBH": ("bbh", "exact_match,get-answer"),
    "MMLU-Pro": ("mmlu_pro", "exact_match,custom-extract"),
    "GPQA": ("gpqa_main_cot_zeroshot", "exact_match,flexible-extract"),
    "GSM8K": ("gsm8k_cot_zeroshot", "exact_match,flexible-extract"),
    "HumanEval": ("humaneval_instruct", "pass@1,create_test"),
}
BENCHMARKS = tuple(HARNESS)
OF_BENCHMARKS = (2, 3, 4)  # the tables that say what all six come to
SIZES = (4, 8, 16)  # block sizes that were trained
AR_IN_BATCHES = "AR, continuous"  # what speeds in batches are compared with
SWEEP = 8  # the table that is drawn as well:
CURVE = {"task": "GSM8K", "block_size": 8, "sft_loss": True}  # of the paper's, as mars-tiny has B = 8 too
WORLDS = {"average": "all worlds", "word-problems": "word-problems", "letters": "letters"}  # of ours


@dataclass(frozen=True)
class Table:
    """A table as it is shown.

    frame: its cells as text; the first column names the rows.
    source: where its numbers come from and what they are.
    """

    frame: DataFrame
    source: str


class Point(NamedTuple):
    """A point of a τ curve."""

    tau: float
    accuracy: float
    tokens_per_forward: float


@dataclass(frozen=True)
class Comparison:
    """A table of the paper and this project's counterpart.

    key: of the table's rows in `PAPER`, from which `theirs` makes the table.
    file: the results from which `ours` makes the counterpart.
    """

    title: str
    unit: str
    key: str
    theirs: Callable[[list[dict]], DataFrame]
    file: str
    ours: Callable[[Any], DataFrame]


def paper(number: int) -> Table:
    """Table `number` of the paper."""
    chosen = TABLES[number]
    return Table(chosen.theirs(PAPER[chosen.key]), f"the paper's Table {number}: {chosen.unit}")


def here(number: int) -> Table | None:
    """This project's counterpart of Table `number`; None if nothing of it has been measured yet."""
    chosen = TABLES[number]
    measured = results.read(chosen.file)
    if measured is None:
        return None
    frame = chosen.ours(measured)
    return None if frame.empty else Table(frame, f"{SOURCES[chosen.file](measured)}: {chosen.unit}")


def benchmarks() -> Table | None:
    """The paper's six benchmarks on our models, with cells as in Table 4: a row for each file of
    `benchmark --tasks paper` in the folder of results. None if there is none."""
    found = [results.read(path.name) for path in sorted(results.FOLDER.glob("benchmarks-*.json"))]
    rows = [(record, _six(record)) for record in found]
    rows = [(record, six) for record, six in rows if six]
    if not rows:
        return None
    sources = " · ".join(f"`{record['command']}`, {record['machine']}" for record, _ in rows)
    return Table(DataFrame([_benchmark(*row) for row in rows]), f"{sources}: {_BOTH}")


def paper_curves() -> dict[str, list[Point]]:
    """The paper's τ sweep on one benchmark with one block size, a curve per scale."""
    curves: dict[str, list[Point]] = {}
    for row in PAPER["table8_tau_sweep"]:
        if all(row[key] == value for key, value in CURVE.items()):
            point = Point(row["tau"], row["accuracy"] / 100, row["tokens_per_forward"])
            name = f"{row['scale']}, {CURVE['task']}, B = {CURVE['block_size']}"
            curves.setdefault(name, []).append(point)
    return curves


def our_curves() -> dict[str, list[Point]]:
    """The τ sweep of `mars-tiny`: the average over all worlds and two of them; empty if not measured."""
    measured = results.read("frontier.json")
    curves: dict[str, list[Point]] = {}
    for tau, rows in _sweep(measured).items() if measured else ():
        for world, name in WORLDS.items():
            point = Point(tau, rows[world].accuracy, rows[world].tokens_per_forward)
            curves.setdefault(name, []).append(point)
    return curves


# ------------------------------------------------------------------------------ the paper's tables


def _pivot(corner: str, cells: Mapping[tuple[str, str], str]) -> DataFrame:
    """A table from its cells by row and column, both in the order in which they first come."""
    rows: dict[str, dict[str, str]] = {}
    for (name, column), cell in cells.items():
        rows.setdefault(name, {corner: name})[column] = cell
    return DataFrame(list(rows.values()))


def _pair(accuracy: float, tokens_per_forward: float) -> str:
    return f"{accuracy:.1f}, {tokens_per_forward:.2f}"


def _model(row: Mapping) -> str:
    size = "" if row["block_size"] is None else f", B = {row['block_size']}"
    return f"{row['scale']} {row['model']}{size}{', without SFT loss' if row['sft_loss'] is False else ''}"


def _one_token(rows: list[dict]) -> DataFrame:
    return DataFrame(
        [
            {"model": _model(row), "average": f"{row['Avg']:.1f}"}
            | {name: f"{row[name]:.1f}" for name in BENCHMARKS}
            for row in rows
        ]
    )


def _several_tokens(rows: list[dict]) -> DataFrame:
    def record(row: dict) -> dict[str, str]:
        right, speeds = row["accuracy"], row["tokens_per_forward"]
        return {
            "model": f"{row['scale']} MARS, B = {row['block_size']}, τ = {row['tau']:g}",
            "average": f"{right['Avg']:.1f}",
            "tokens per forward": f"{speeds['Avg']:.2f}",
        } | {name: _pair(right[name], speeds[name]) for name in BENCHMARKS}

    return DataFrame([record(row) for row in rows])


def _batches(rows: list[dict]) -> DataFrame:
    cells = {}
    for row in rows:
        method = row["method"] + (f" of {row['cache_block']}" if row["cache_block"] else "")
        speed = f"{row['tokens_per_second']:.1f}, {row['speedup']:.2f}×"
        cells[method, f"batch {row['batch_size']}"] = speed
    return _pivot("method", cells)


def _tau_sweep(rows: list[dict]) -> DataFrame:
    cells = {}
    for row in rows:
        model = f"{_model(row | {'model': 'MARS'})}: {row['task']}"
        cells[model, f"τ = {row['tau']:g}"] = _pair(row["accuracy"], row["tokens_per_forward"])
    return _pivot("model and benchmark", cells)


def _jacobi(rows: list[dict]) -> DataFrame:
    return DataFrame(
        [
            {
                "method": row["method"],
                "average": f"{row['Avg']:.1f}",
                "tokens per forward": f"{row['tokens_per_forward']:.2f}",
            }
            | {name: f"{row[name]:.1f}" for name in BENCHMARKS}
            for row in rows
        ]
    )


def _speculative(rows: list[dict]) -> DataFrame:
    numbers = {"speedup": 2, "tokens per target forward": 2, "tokens per second": 1, "seconds": 0}
    return DataFrame(
        [
            {"draft for target": f"{row['draft']} for {row['target']}"}
            | {"accuracy": f"{row['accuracy_delta']:+.1f}"}
            | {name: f"{row[name.replace(' ', '_')]:.{digits}f}" for name, digits in numbers.items()}
            for row in rows
        ]
    )


# ------------------------------------------------------------------------------- this project's


def _methods(*chosen: tuple[str, str], speeds: bool = False) -> Callable[[dict], DataFrame]:
    """The chosen methods of `paper.json` with their decodings, as far as they have been measured."""

    def frame(measured: dict) -> DataFrame:
        groups = results.grouped(measured["rows"])
        return DataFrame(
            [
                {"model": _named(method, decoding)} | _measured(groups[method, decoding], speeds)
                for method, decoding in chosen
                if (method, decoding) in groups
            ]
        )

    return frame


def _named(method: str, decoding: str) -> str:
    return method if decoding == "ar" else f"{method}, {decoding.removeprefix('diffusion ')}"


def _measured(rows: list[dict], speeds: bool) -> dict[str, str]:
    """The cells of one method: over seeds the average of all worlds, then each world's own."""
    seeds, worlds = results.averages(rows, "seed").values(), results.averages(rows, "task")
    cells = {"average": results.spread([100 * seed.accuracy for seed in seeds], 1)}
    if speeds:
        cells["tokens per forward"] = results.spread([seed.tokens_per_forward for seed in seeds], 2)
        return cells | {w: _pair(100 * r.accuracy, r.tokens_per_forward) for w, r in worlds.items()}
    return cells | {world: f"{100 * row.accuracy:.1f}" for world, row in worlds.items()}


def _sweep(measured: dict) -> dict[float, dict[str, Measured]]:
    """Return the points of `mars-tiny` by τ and by world, that of all worlds first. AR stands for τ = 1."""
    record = next(one for one in measured["sweeps"] if one["model"] == "mars-tiny")
    sweep = {}
    for point in Frontier.read(record).points:
        if point.setting == AR or point.setting.criterion == "probability":
            worlds = {
                name: replace(point, outcomes=point.outcomes[number :: len(TASKS)])
                for number, name in enumerate(TASKS)  # the prompts are of each world in turn
            }
            sweep[point.setting.tau or 1.0] = {"average": point, **worlds}
    return sweep


def _our_tau_sweep(measured: dict) -> DataFrame:
    cells = {}
    for tau, worlds in _sweep(measured).items():
        for world, row in worlds.items():
            cells[world, f"τ = {tau:g}"] = _pair(100 * row.accuracy, row.tokens_per_forward)
    return _pivot("mars-tiny, world", cells)


def _our_batches(measured: dict) -> DataFrame:
    """The ratio is of seconds for the same prompts, as in the paper, round by round."""
    rows = measured["rows"]
    seconds = {(row["method"], row["size"]): row["seconds"] for row in rows}
    cells = {}
    for row in rows:
        speed = f"{row['tokens'] / statistics.median(row['seconds']):.1f}"
        base = seconds.get((AR_IN_BATCHES, row["size"]))
        if base:
            speed += f", {results.ranged(results.ratios(row['seconds'], base), unit='×')}"
        cells[row["method"], f"batch {row['size']}"] = speed
    return _pivot("method", cells)


def _our_speculative(measured: dict) -> DataFrame:
    """As in the paper, AR that drafts for AR has speedup 1."""
    rows = measured["rows"]
    base = next(
        (r for r in rows if (r["draft"], r["target"]) == ("ar", "ar") and r["draft_forwards"]), None
    )

    def record(row: dict) -> dict[str, str]:
        drafted = f"{row['draft']} for {row['target']}"
        pair = drafted if row["draft_forwards"] else f"no draft, {row['target']} in mode {row['draft']}"
        pair += "" if row["tau"] is None else f", τ = {row['tau']:g}"
        cells = {"draft for target": pair, "accuracy": f"{100 * row['accuracy']:.1f}"}
        if base:
            cells["speedup"] = results.ranged(results.ratios(row["seconds"], base["seconds"]))
        seconds = statistics.median(row["seconds"])
        return cells | {
            "tokens per target forward": f"{row['tokens'] / row['target_forwards']:.2f}",
            "tokens per second": f"{row['tokens'] / seconds:.1f}",
            "seconds": f"{seconds:.1f}",
        }

    return DataFrame([record(row) for row in rows])


def _six(record: dict) -> dict[str, dict]:
    """The rows of those of the six benchmarks that a file of results has."""
    tasks = {row["task"]: row for row in record["tasks"]}
    return {name: tasks[task] for name, (task, metric) in HARNESS.items() if task in tasks}


def _benchmark(record: dict, six: dict[str, dict]) -> dict[str, str]:
    tau = "" if record["tau"] is None else f", τ = {record['tau']:g}"
    right = {name: 100 * row["metrics"][HARNESS[name][1]] for name, row in six.items()}
    speeds = {name: row["tokens_per_forward"] for name, row in six.items()}
    cells = {"model": f"{record['model']}, {record['mode']}{tau}", "average": "", "tokens per forward": ""}
    if len(six) == len(HARNESS):
        cells["average"] = f"{statistics.mean(right.values()):.1f}"
        cells["tokens per forward"] = f"{statistics.mean(speeds.values()):.2f}"
    return cells | {name: _pair(right[name], speeds[name]) if name in six else "" for name in HARNESS}


def _trained(measured: dict) -> str:
    seeds = len({row["seed"] for row in measured["rows"]})
    return (
        f"`{measured['command']}`, {measured['steps']} steps from `ar-tiny` (compute-matched: twice as "
        f"many), {measured['limit']} held-out prompts per world, the same for each of {seeds} seeds; ± is "
        "the standard deviation over the seeds and leaves out the sampling error over prompts; windows "
        "have B + 1 slots, the paper's B"
    )


def _swept(measured: dict) -> str:
    prompts = next(iter(_sweep(measured).values()))["average"].n
    return f"`{measured['command']}`, {prompts} held-out prompts, τ with probabilities as scores"


def _timed(measured: dict) -> str:
    rounds = len(measured["rows"][0]["seconds"])
    return (
        f"`{measured['command']}`, {measured['machine']}, {measured['prompts']} prompts, {rounds} rounds "
        "in which the methods take turns: median (smallest to largest)"
    )


SOURCES: dict[str, Callable[[Any], str]] = {
    "paper.json": _trained,
    "frontier.json": _swept,
    "batches.json": _timed,
    "speculative.json": _timed,
}
_RIGHT = "percent of right answers"
_BOTH = "percent of right answers and tokens per forward"
TABLES = {
    2: Comparison(
        "Table 2: one token per forward",
        _RIGHT,
        "table2_one_token_mode",
        _one_token,
        "paper.json",
        _methods(
            ("AR SFT", "ar"),
            ("AR SFT, compute-matched", "ar"),
            ("Block diffusion, B = 4", "diffusion τ = 1"),
            ("MARS without SFT loss, B = 4", "ar"),
            ("MARS, B = 4", "ar"),
        ),
    ),
    3: Comparison(
        "Table 3: SFT loss",
        _RIGHT,
        "table3_sft_loss",
        _one_token,
        "paper.json",
        _methods(
            ("AR SFT", "ar"),
            *((f"MARS without SFT loss, B = {b}", "ar") for b in SIZES),
            *((f"MARS, B = {b}", "ar") for b in SIZES),
        ),
    ),
    4: Comparison(
        "Table 4: several tokens",
        _BOTH,
        "table4_multi_token",
        _several_tokens,
        "paper.json",
        _methods(
            *((f"MARS, B = {b}", decoding) for decoding in ("τ = 0.95", "lossless") for b in SIZES),
            speeds=True,
        ),
    ),
    5: Comparison(
        "Table 5: batches",
        "tokens per second, and the seconds of the AR row that has 1.00× ÷ those of the method",
        "table5_batch_wall_clock",
        _batches,
        "batches.json",
        _our_batches,
    ),
    6: Comparison(
        "Table 6: speculative decoding",
        "accuracy in percent, of the paper its change in points; speedup over AR that drafts for AR",
        "table6_speculative",
        _speculative,
        "speculative.json",
        _our_speculative,
    ),
    8: Comparison(
        "Table 8: τ sweep", _BOTH, "table8_tau_sweep", _tau_sweep, "frontier.json", _our_tau_sweep
    ),
    9: Comparison(
        "Table 9: Jacobi",
        _BOTH,
        "table9_jacobi",
        _jacobi,
        "paper.json",
        _methods(("AR SFT", "ar"), ("AR SFT", "jacobi"), ("MARS, B = 4", "τ = 0.95"), speeds=True),
    ),
}
