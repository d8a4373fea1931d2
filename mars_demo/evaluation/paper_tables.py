"""The paper's tables, and this project's counterpart of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean, median
from typing import Any, NamedTuple

from pandas import DataFrame

from mars_demo.assets import read_json
from mars_demo.evaluation import frontier, results
from mars_demo.evaluation.frontier import AR, Frontier
from mars_demo.tasks import TASKS

PAPER = read_json("paper_tables.json")
# The task and metric in the lm-evaluation-harness for each of the paper's benchmarks.
HARNESS = {
    "IFEval": ("ifeval", "prompt_level_strict_acc,none"),
    "BBH": ("bbh", "exact_match,get-answer"),
    "MMLU-Pro": ("mmlu_pro", "exact_match,custom-extract"),
    "GPQA": ("gpqa_main_cot_zeroshot", "exact_match,flexible-extract"),
    "GSM8K": ("gsm8k_cot_zeroshot", "exact_match,flexible-extract"),
    "HumanEval": ("humaneval_instruct", "pass@1,create_test"),
}
BENCHMARKS = tuple(HARNESS)
OF_BENCHMARKS = (2, 3, 4)  # the tables on all six
SIZES = (4, 8, 16)  # trained block sizes
AR_IN_BATCHES = "AR, continuous"  # the baseline of speeds in batches
SWEEP = 8  # the table that is also plotted
CURVE = {"task": "GSM8K", "block_size": 8, "sft_loss": True}  # of the paper; mars-tiny has B = 8 too
OUR_CURVES = {"average": "all tasks", "word-problems": "word-problems", "letters": "letters"}  # ours


class Table(NamedTuple):
    """A table to display."""

    frame: DataFrame  # cells are text; the first column names the rows
    source: str  # the origin and unit of the numbers


class Point(NamedTuple):
    """A point of a τ sweep."""

    tau: float
    accuracy: float
    tokens_per_forward: float


@dataclass(frozen=True)
class Comparison:
    """A table of the paper and this project's counterpart."""

    title: str
    unit: str
    key: str  # key in `PAPER` of the rows for `theirs`
    theirs: Callable[[list[dict]], DataFrame]
    file: str  # results file for `ours`
    ours: Callable[[Any], DataFrame]


def paper(number: int) -> Table:
    comparison = TABLES[number]
    return Table(comparison.theirs(PAPER[comparison.key]), f"the paper's Table {number}: {comparison.unit}")


def here(number: int) -> Table | None:
    """Return this project's counterpart of Table `number`; None if not measured."""
    comparison = TABLES[number]
    measured = results.read(comparison.file)
    if measured is None:
        return None
    frame = comparison.ours(measured)
    return None if frame.empty else Table(frame, f"{SOURCES[comparison.file](measured)}: {comparison.unit}")


def benchmarks() -> Table | None:
    """Return the paper's six benchmarks on our models, a row per `benchmarks-*.json`; None without rows."""
    files = [results.read(path.name) for path in sorted(results.FOLDER.glob("benchmarks-*.json"))]
    measured = [(record, six) for record in files if (six := _six(record))]
    if not measured:
        return None
    sources = " · ".join(f"`{record['command']}`, {record['machine']}" for record, _ in measured)
    return Table(DataFrame([_benchmark(*row) for row in measured]), f"{sources}: {_BOTH}")


def paper_curves() -> dict[str, list[Point]]:
    """Return the paper's τ sweep on one benchmark with one block size, a curve per scale."""
    curves: dict[str, list[Point]] = {}
    for row in PAPER["table8_tau_sweep"]:
        if CURVE.items() <= row.items():
            point = Point(row["tau"], row["accuracy"] / 100, row["tokens_per_forward"])
            name = f"{row['scale']}, {CURVE['task']}, B = {CURVE['block_size']}"
            curves.setdefault(name, []).append(point)
    return curves


def our_curves() -> dict[str, list[Point]]:
    """Return the τ sweep of `mars-tiny` on all tasks and on two of them; empty if not measured."""
    measured = results.read("frontier.json")
    curves: dict[str, list[Point]] = {}
    for tau, by_task in _sweep(measured).items() if measured else ():
        for task, name in OUR_CURVES.items():
            point = Point(tau, by_task[task].accuracy, by_task[task].tokens_per_forward)
            curves.setdefault(name, []).append(point)
    return curves


# ------------------------------------------------------------------------------ the paper's tables


def _columns(forms: Mapping[str, str]) -> Callable[[list[dict]], DataFrame]:
    """Return a function from rows to a table; `forms` has the format of each column."""
    return lambda rows: DataFrame(
        [{title: form.format(**row, name=_name(row)) for title, form in forms.items()} for row in rows]
    )


def _pivot(corner: str, row_form: str, column: str, cell: str) -> Callable[[list[dict]], DataFrame]:
    """Return a function from rows to a pivot table by `row_form` and `column`."""

    def frame(rows: list[dict]) -> DataFrame:
        named = [row | {"name": _name(row)} for row in rows]
        return _crossed(
            corner, {(row_form.format(**r), column.format(**r)): cell.format(**r) for r in named}
        )

    return frame


def _crossed(corner: str, cells: Mapping[tuple[str, str], str]) -> DataFrame:
    """Return a table from its cells by row and column, both in order of first appearance."""
    rows: dict[str, dict[str, str]] = {}
    for (name, column), cell in cells.items():
        rows.setdefault(name, {corner: name})[column] = cell
    return DataFrame(list(rows.values()))


def _name(row: Mapping) -> str:
    """Return the name of a row in the paper's tables: a batched method, or a model."""
    if "cache_block" in row:
        return row["method"] + (f" of {row['cache_block']}" if row["cache_block"] else "")
    if "scale" not in row:
        return ""
    size = "" if row["block_size"] is None else f", B = {row['block_size']}"
    without = ", without SFT loss" if row.get("sft_loss") is False else ""
    return f"{row['scale']} {row.get('model', 'MARS')}{size}{without}"


def _pair(accuracy: float, tokens_per_forward: float) -> str:
    return f"{accuracy:.1f}, {tokens_per_forward:.2f}"


_SIX = {name: f"{{{name}:.1f}}" for name in BENCHMARKS}
_ONE_TOKEN = _columns({"model": "{name}", "average": "{Avg:.1f}", **_SIX})
_SEVERAL_TOKENS = _columns(
    {
        "model": "{name}, τ = {tau:g}",
        "average": "{accuracy[Avg]:.1f}",
        "tokens per forward": "{tokens_per_forward[Avg]:.2f}",
    }
    | {name: f"{{accuracy[{name}]:.1f}}, {{tokens_per_forward[{name}]:.2f}}" for name in BENCHMARKS}
)
_BATCHES = _pivot("method", "{name}", "batch {batch_size}", "{tokens_per_second:.1f}, {speedup:.2f}×")
_SPECULATIVE = _columns(
    {
        "draft for target": "{draft} for {target}",
        "accuracy": "{accuracy_delta:+.1f}",
        "speed-up": "{speedup:.2f}",
        "tokens per target forward": "{tokens_per_target_forward:.2f}",
        "tokens per second": "{tokens_per_second:.1f}",
        "seconds": "{seconds:.0f}",
    }
)
_TAU_SWEEP = _pivot(
    "model and benchmark", "{name}: {task}", "τ = {tau:g}", "{accuracy:.1f}, {tokens_per_forward:.2f}"
)
_JACOBI = _columns(
    {
        "method": "{method}",
        "average": "{Avg:.1f}",
        "tokens per forward": "{tokens_per_forward:.2f}",
        **_SIX,
    }
)


# ------------------------------------------------------------------------------- this project's


def _methods(*chosen: tuple[str, str], speeds: bool = False) -> Callable[[dict], DataFrame]:
    """Return a function from `paper.json` to a table of these methods and decodings, if measured."""

    def frame(measured: dict) -> DataFrame:
        groups = results.grouped(measured["rows"])
        return DataFrame(
            [
                {
                    "model": method
                    if decoding == "ar"
                    else f"{method}, {decoding.removeprefix('diffusion ')}"
                }
                | _method(groups[method, decoding], speeds)
                for method, decoding in chosen
                if (method, decoding) in groups
            ]
        )

    return frame


def _method(rows: list[dict], speeds: bool) -> dict[str, str]:
    """Return the cells of one method over seeds: the average over tasks, then each task."""
    seeds, by_task = results.averages(rows, "seed").values(), results.averages(rows, "task")
    cells = {"average": results.spread([100 * seed.accuracy for seed in seeds], 1)}
    if not speeds:
        return cells | {task: f"{100 * row.accuracy:.1f}" for task, row in by_task.items()}
    cells["tokens per forward"] = results.spread([seed.tokens_per_forward for seed in seeds], 2)
    return cells | {t: _pair(100 * row.accuracy, row.tokens_per_forward) for t, row in by_task.items()}


def _sweep(measured: dict) -> dict[float, dict[str, frontier.Point]]:
    """Return the points of `mars-tiny` by τ and task, the average first; AR stands for τ = 1."""
    record = next(one for one in measured["sweeps"] if one["model"] == "mars-tiny")
    sweep = {}
    for point in Frontier.read(record).points:
        if point.setting == AR or point.setting.criterion == "probability":
            by_task = {
                name: replace(point, outcomes=point.outcomes[number :: len(TASKS)])
                for number, name in enumerate(TASKS)  # prompts take the tasks in turn
            }
            sweep[point.setting.tau or 1.0] = {"average": point, **by_task}
    return sweep


def _our_tau_sweep(measured: dict) -> DataFrame:
    cells = {
        (task, f"τ = {tau:g}"): _pair(100 * point.accuracy, point.tokens_per_forward)
        for tau, by_task in _sweep(measured).items()
        for task, point in by_task.items()
    }
    return _crossed("mars-tiny, task", cells)


def _our_batches(measured: dict) -> DataFrame:
    """Return tokens per second and, as in the paper, the ratio of seconds for the same prompts."""
    rows = measured["rows"]
    seconds = {(row["method"], row["size"]): row["seconds"] for row in rows}
    cells = {}
    for row in rows:
        speed = f"{row['tokens'] / median(row['seconds']):.1f}"
        if base := seconds.get((AR_IN_BATCHES, row["size"])):
            speed += f", {results.ranged(results.ratios(row['seconds'], base), unit='×')}"
        cells[row["method"], f"batch {row['size']}"] = speed
    return _crossed("method", cells)


def _our_speculative(measured: dict) -> DataFrame:
    """Return a row per pair; as in the paper, AR drafting for AR has speed-up 1."""
    rows = measured["rows"]
    ar = next((r for r in rows if (r["draft"], r["target"]) == ("ar", "ar") and r["draft_forwards"]), None)
    return DataFrame([_speculated(row, ar and ar["seconds"]) for row in rows])


def _speculated(row: dict, base: Sequence[float] | None) -> dict[str, str]:
    pair = f"{row['draft']} for {row['target']}"
    if not row["draft_forwards"]:
        pair = f"no draft, {row['target']} in mode {row['draft']}"
    pair += "" if row["tau"] is None else f", τ = {row['tau']:g}"
    seconds = median(row["seconds"])
    speedup = {"speed-up": results.ranged(results.ratios(row["seconds"], base))} if base else {}
    return {"draft for target": pair, "accuracy": f"{100 * row['accuracy']:.1f}", **speedup} | {
        "tokens per target forward": f"{row['tokens'] / row['target_forwards']:.2f}",
        "tokens per second": f"{row['tokens'] / seconds:.1f}",
        "seconds": f"{seconds:.1f}",
    }


def _six(record: dict) -> dict[str, dict]:
    """Return the rows of the six benchmarks in a results file, as far as it has them."""
    tasks = {row["task"]: row for row in record["tasks"]}
    return {name: tasks[task] for name, (task, _) in HARNESS.items() if task in tasks}


def _benchmark(record: dict, six: dict[str, dict]) -> dict[str, str]:
    tau = "" if record["tau"] is None else f", τ = {record['tau']:g}"
    right = {name: 100 * row["metrics"][HARNESS[name][1]] for name, row in six.items()}
    speeds = {name: row["tokens_per_forward"] for name, row in six.items()}
    whole = len(six) == len(HARNESS)
    return {
        "model": f"{record['model']}, {record['mode']}{tau}",
        "average": f"{mean(right.values()):.1f}" if whole else "",
        "tokens per forward": f"{mean(speeds.values()):.2f}" if whole else "",
    } | {name: _pair(right[name], speeds[name]) if name in six else "" for name in HARNESS}


def _trained(measured: dict) -> str:
    seeds = len({row["seed"] for row in measured["rows"]})
    return (
        f"`{measured['command']}`, {measured['steps']} steps from `ar-tiny` (compute-matched: twice as "
        f"many), {measured['limit']} held-out prompts per task, the same for each of {seeds} seeds; ± is "
        "the standard deviation over the seeds, without the sampling error over prompts; windows have "
        "B + 1 slots, the paper's B"
    )


def _swept(measured: dict) -> str:
    prompts = next(iter(_sweep(measured).values()))["average"].n
    return f"`{measured['command']}`, {prompts} held-out prompts, slots scored by probability"


def _timed(measured: dict) -> str:
    rounds = len(measured["rows"][0]["seconds"])
    return (
        f"{results.origin(measured)}, {measured['machine']}, {measured['prompts']} prompts, "
        f"{rounds} rounds in which the methods take turns: median (smallest to largest)"
    )


_ACCURACY = "accuracy in percent"
_BOTH = "accuracy in percent and tokens per forward"
_TABLE_2 = _methods(
    ("AR SFT", "ar"),
    ("AR SFT, compute-matched", "ar"),
    ("Block diffusion, B = 4", "diffusion τ = 1"),
    ("MARS without SFT loss, B = 4", "ar"),
    ("MARS, B = 4", "ar"),
)
_TABLE_3 = _methods(
    ("AR SFT", "ar"),
    *((f"MARS without SFT loss, B = {b}", "ar") for b in SIZES),
    *((f"MARS, B = {b}", "ar") for b in SIZES),
)
_TABLE_4 = _methods(
    *((f"MARS, B = {b}", decoding) for decoding in ("τ = 0.95", "lossless") for b in SIZES), speeds=True
)
_TABLE_9 = _methods(("AR SFT", "ar"), ("AR SFT", "jacobi"), ("MARS, B = 4", "τ = 0.95"), speeds=True)
_SPEEDS = "tokens per second, and the speed-up over the AR row with 1.00×"
_CHANGES = "accuracy in percent (the paper: change in points); speed-up over AR drafting for AR"
SOURCES: dict[str, Callable[[Any], str]] = {
    "paper.json": _trained,
    "frontier.json": _swept,
    "batches.json": _timed,
    "speculative.json": _timed,
}
TABLES = {
    number: Comparison(f"Table {number}: {title}", *fields)
    for number, title, *fields in (
        (2, "one token per forward", _ACCURACY, "table2_one_token_mode", _ONE_TOKEN, "paper.json",
         _TABLE_2),
        (3, "SFT loss", _ACCURACY, "table3_sft_loss", _ONE_TOKEN, "paper.json", _TABLE_3),
        (4, "several tokens", _BOTH, "table4_multi_token", _SEVERAL_TOKENS, "paper.json", _TABLE_4),
        (5, "batches", _SPEEDS, "table5_batch_wall_clock", _BATCHES, "batches.json", _our_batches),
        (6, "speculative decoding", _CHANGES, "table6_speculative", _SPECULATIVE, "speculative.json",
         _our_speculative),
        (8, "τ sweep", _BOTH, "table8_tau_sweep", _TAU_SWEEP, "frontier.json", _our_tau_sweep),
        (9, "Jacobi", _BOTH, "table9_jacobi", _JACOBI, "paper.json", _TABLE_9),
    )
}  # fmt: skip
