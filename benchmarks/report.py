"""The figures of the README and of docs/: written from assets/results, never by hand.

    python -m benchmarks.report

fills what lies between `<!-- figures: NAME -->` and `<!-- end -->` in every document. A test compares.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from mars_demo import comparison, results, throughput
from mars_demo.comparison import PAPER
from mars_demo.evaluation import Row, average
from mars_demo.load import BASELINE
from mars_demo.markdown import table
from mars_demo.tasks import TASKS

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "docs/measurements.md")
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A document with its figures as the results say them."""
    return BLOCK.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def source(measured: dict, *more: str) -> str:
    """Where a block's figures come from."""
    return f"\n\n<sub>`{measured['command']}` · {' · '.join([measured['machine'], *more])}</sub>"


def rounds(measured: dict) -> str:
    count = len(measured["rows"][0]["seconds"])
    return f"{count} rounds in which the methods take turns: median (smallest–largest)"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def headline() -> str:
    """Five rows for the README."""
    methods = _tiny()
    ar, tau, lossless = (average(methods[name]) for name in ("τ = 1", "τ = 0.95", "lossless"))
    speeds = {row["method"]: row["seconds"] for row in results.read("speed.json")["rows"]}
    own = {name: row["seconds"] for name, row in _batches()[8].items()}
    burst = {r["policy"]: r for r in results.read("load.json")["traces"] if r["trace"] == "burst"}
    controlled = next(row for name, row in burst.items() if "controller" in name)

    def faster(times: dict, name: str, base: str) -> str:
        return results.ranged(results.ratios(times[name], times[base]), unit="×")

    def right(share: float, base: float) -> str:
        return f"{share:.1%} right (AR {base:.1%})"

    def p95(row: dict) -> float:
        return row["latency"]["p95"]

    cursor = f"MARS τ = {throughput.TAU:g}, cursor cache"
    best_lossless = min((n for n in speeds if "lossless" in n), key=lambda n: statistics.median(speeds[n]))
    equal = f"{results.read('tiny.json')['lossless_equal']} of {lossless.n} answers equal AR's"
    rows = [
        [
            "MARS, τ = 0.95, one prompt",
            f"{tau.tokens_per_forward:.2f} tokens per forward, {right(tau.accuracy, ar.accuracy)}",
            f"{faster(speeds, 'mars τ = 0.95', 'ar')} as fast as AR",
        ],
        [
            "lossless, one prompt",
            f"{lossless.tokens_per_forward:.2f} tokens per forward, {equal}",
            f"{faster(speeds, best_lossless, 'ar')} as fast as AR",
        ],
        [
            "transformers' `generate`, one prompt",
            "one token per forward",
            f"{faster(speeds, 'transformers generate', 'ar')} as fast as AR here",
        ],
        [
            "MARS, τ = 0.95, batches of 8, cursor cache",
            "every row gives the tokens it gives alone",
            f"{faster(own, cursor, throughput.BASELINE)} as fast as AR in the same batch",
        ],
        [
            "a burst of requests, τ by the queue",
            right(controlled["accuracy"], burst[BASELINE]["accuracy"]),
            f"p95 latency {p95(controlled):.2f} s (AR {p95(burst[BASELINE]):.2f} s)",
        ],
    ]
    files = ", ".join(f"`assets/results/{name}.json`" for name in ("tiny", "speed", "batches", "load"))
    return table(["`mars-tiny`, on a CPU", "quality", "speed"], rows) + (
        f"\n\n<sub>From {files}, which name their commands and machines; the range is that of several "
        "rounds.</sub>"
    )


# -------------------------------------------------------------------------------- the tiny models


def _tiny() -> dict[str, list[Row]]:
    methods = results.read("tiny.json")["methods"]
    return {name: [Row(**row) for row in rows] for name, rows in methods.items()}


def tiny() -> str:
    measured, methods = results.read("tiny.json"), _tiny()
    chosen = ("ar-tiny", "τ = 1", "τ = 0.95", "τ = 0.5", "lossless")

    def cells(rows: Sequence[Row]) -> list[str]:
        return [f"{row.accuracy:.1%}, {row.tokens_per_forward:.2f}" for row in rows]

    by_task = [
        [row.task, *cells([methods[name][number] for name in chosen])]
        for number, row in enumerate(methods["ar-tiny"])
    ]
    means = ["average", *cells([average(methods[name]) for name in chosen])]
    limit = measured["prompts_per_task"]
    total = limit * len(by_task)
    return (
        table(["task", *chosen], [*by_task, means])
        + f"\n\nLossless: {measured['lossless_equal']} of {total} answers equal those of `ar`, token for "
        "token." + source(measured, f"{limit} held-out prompts per task, greedy")
    )


def curve() -> str:
    measured = results.read("tiny.json")
    rows = [
        [name.removeprefix("τ = "), f"{row.accuracy:.1%}", f"{row.tokens_per_forward:.2f}"]
        for name, row in ((name, average(rows)) for name, rows in _tiny().items())
        if name.startswith("τ")
    ]
    return table(["τ", "accuracy", "tokens per forward"], rows) + source(measured)


# ----------------------------------------------------------------------------- speed, one prompt


def speed() -> str:
    measured = results.read("speed.json")
    rows = {row["method"]: row for row in measured["rows"]}
    seconds = {name: row["seconds"] for name, row in rows.items()}
    cells = [
        [
            name,
            f"{row['tokens'] / row['forwards']:.2f}",
            results.ranged(results.ratios(seconds[name], seconds["ar"]), unit="×"),
            f"{1000 * statistics.median(seconds[name]) / row['forwards']:.1f}",
        ]
        for name, row in rows.items()
    ]
    columns = ["method", "tokens per forward", "faster than ar", "ms per forward"]
    unrecorded = seconds.pop("mars τ = 0.95, nothing recorded")
    ratios = results.ratios(unrecorded, seconds["mars τ = 0.95"])
    cost = results.ranged([100 * (ratio - 1) for ratio in ratios], 1, " %")
    best, *tied = results.fastest(seconds)
    also = f"; in some round as fast: {listed(tied)}" if tied else ", in every round"
    return (
        table(columns, cells)
        + f"\n\nThe smallest median time has {best}{also}. Recording every slot of every forward costs "
        f"{cost} of the decoding time."
        + source(measured, f"{measured['prompts']} held-out prompts", rounds(measured))
    )


def page() -> str:
    measured = results.read("page.json")
    runs = measured["runs"]
    lost = results.ranged([100 * run["lost"] for run in runs], 0, " %")
    longest = max((task for run in runs for task in run["long_tasks_ms"]), default=0)
    tasks = (
        f"the longest task of the page took {longest:.0f} ms"
        if longest
        else "no task took longer than 50 ms"
    )
    return (
        f"{measured['tokens']} tokens in {measured['forwards']} forwards, {measured['seconds']:.1f} s in "
        f"all, take {lost} longer when a page in headless Chromium draws them; {tasks}."
        + source(measured, f"{len(runs)} runs")
    )


# ------------------------------------------------------------------------------------- training


def training() -> str:
    measured = results.read("training.json")
    base = measured["rows"][0]["seconds"]
    rows = [
        [
            row["objective"],
            f"{row['positions'] // measured['steps']}",
            f"{row['tokens'] / statistics.median(row['seconds']):.0f}",
            results.ranged(results.ratios(base, row["seconds"])),
        ]
        for row in measured["rows"]
    ]
    columns = ["objective", "positions per step", "clean tokens per second", "step time ÷ AR"]
    known = (
        f"`{measured['model']}`, {measured['steps']} steps of {measured['batch_tokens']} clean positions"
    )
    return table(columns, rows) + source(measured, known, rounds(measured))


# ------------------------------------------------------------------------- the paper's comparison

SIZES = comparison.SIZES
METHODS = (
    "AR SFT",
    "AR SFT, compute-matched",
    "Block diffusion, B = 4",
    *(f"MARS, B = {b}" for b in SIZES),
    *(f"MARS without SFT loss, B = {b}" for b in SIZES),
)
OPTIONS = (
    "MARS, B = 8",
    "fixed blocks",
    "fixed blocks, whole copy (2L)",
    "KL weight 1",
    "self-distilled answers",
)


def _paper_rows(methods: Sequence[str]) -> tuple[dict, dict[tuple[str, str], list[dict]]]:
    measured = results.read("paper.json")
    groups = results.grouped(measured["rows"])
    return measured, {key: rows for key, rows in groups.items() if key[0] in methods}


def _accuracy(method: str, decoding: str) -> float:
    """Mean over the seeds, in percent."""
    seeds = results.averages(_paper_rows(METHODS)[1][method, decoding], "seed").values()
    return 100 * statistics.mean(seed.accuracy for seed in seeds)


def _per_forward(method: str, decoding: str) -> float:
    seeds = results.averages(_paper_rows(METHODS)[1][method, decoding], "seed").values()
    return statistics.mean(seed.tokens_per_forward for seed in seeds)


def _summary(title: str, methods: Sequence[str]) -> str:
    measured, groups = _paper_rows(methods)
    rows = []
    for (method, decoding), found in groups.items():
        seeds = results.averages(found, "seed").values()
        accuracy = results.spread([100 * seed.accuracy for seed in seeds], 1)
        rate = results.spread([seed.tokens_per_forward for seed in seeds], 2)
        rows.append([method, decoding, f"{accuracy} %", rate, str(len(seeds))])
    columns = [title, "decoding", "accuracy", "tokens per forward", "seeds"]
    known = f"{measured['steps']} steps, {measured['limit']} held-out prompts per world, greedy"
    return table(columns, rows) + source(measured, known)


def paper() -> str:
    measured, _ = _paper_rows(METHODS)
    prompts = measured["limit"] * len(TASKS)
    share = _accuracy("AR SFT", "ar") / 100
    error = 100 * (share * (1 - share) / prompts) ** 0.5
    seeds = len({row["seed"] for row in measured["rows"]})
    return (
        f"Each of the {seeds} seeds answers the same {prompts} held-out prompts. ± is the standard "
        f"deviation over the seeds. It leaves out the sampling error over prompts, about {error:.1f} "
        f"points (one standard error of a share of {share:.0%} in {prompts}). Windows have B + 1 slots; "
        "the paper's have B.\n\n" + _summary("method", METHODS)
    )


def worlds() -> str:
    measured, groups = _paper_rows(METHODS)
    rows = []
    for (method, decoding), found in groups.items():
        by_task = results.averages(found, "task")
        rows.append([method, decoding, *(f"{100 * by_task[task].accuracy:.0f}" for task in TASKS)])
    return table(["method", "decoding", *TASKS], rows) + source(measured, "percent right")


def options() -> str:
    return _summary("option", OPTIONS)


def _theirs(key: str, **wanted) -> dict:
    return next(r for r in PAPER[key] if all(r[name] == value for name, value in wanted.items()))


def agreement() -> str:
    """Where this project's comparison agrees with the paper's, in words."""

    def table2(scale: str, model: str, sft_loss=None) -> float:
        return _theirs("table2_one_token_mode", scale=scale, model=model, sft_loss=sft_loss)["Avg"]

    def table3(scale: str, b: int, sft: bool) -> float:
        return _theirs("table3_sft_loss", scale=scale, model="MARS", block_size=b, sft_loss=sft)["Avg"]

    def table4(scale: str, b: int) -> dict:
        return _theirs("table4_multi_token", scale=scale, block_size=b, tau=0.95)

    def each(values: Sequence[float], digits: int = 1, to: str = ", ") -> str:
        return to.join(f"{value:.{digits}f}" for value in values)

    def ours(name: str, decoding: str, read: Callable = _accuracy) -> list[float]:
        return [read(f"{name}, B = {b}", decoding) for b in SIZES]

    def cost(scale: str) -> list[float]:
        return [table3(scale, b, True) - table4(scale, b)["accuracy"]["Avg"] for b in SIZES]

    def rates(scale: str) -> str:
        return each([table4(scale, b)["tokens_per_forward"]["Avg"] for b in SIZES], 2)

    def gained(scale: str, base: str) -> str:
        return each([table3(scale, b, True) - table2(scale, base) for b in SIZES])

    small, ar = "AR SFT (5 ep)", _accuracy("AR SFT", "ar")
    mars, at_tau = ours("MARS", "ar"), ours("MARS", "τ = 0.95")
    fallen = each(ours("MARS without SFT loss", "ar"), to=" to ")
    theirs = each([table3("0.5B", b, False) for b in SIZES], to=" to ")
    lost = ar - _accuracy("Block diffusion, B = 4", "diffusion τ = 1")
    they_lost = table2("0.5B", small) - table2("0.5B", "Block Diffusion")
    more = _accuracy("AR SFT, compute-matched", "ar") - ar
    they_more = table2("0.5B", "AR SFT (10 ep)") - table2("0.5B", small)
    ours_cost = each([one - several for one, several in zip(mars, at_tau)])
    several = each(ours("MARS", "τ = 0.95", _per_forward), 2)
    lossless = each(ours("MARS", "lossless", _per_forward), 2)
    jacobi = _per_forward("AR SFT", "jacobi")
    their_jacobi = PAPER["table9_jacobi"][1]["tokens_per_forward"]
    bullets = {
        "The SFT loss keeps the model (Table 3): agrees, and more sharply.": (
            f"Without it, answers at one token per forward fall as blocks grow, from {fallen} % for B = 4, "
            f"8 and 16; with it they are {each(mars)} %. In the paper (0.5B) they fall from {theirs}."
        ),
        "Block diffusion loses quality (Table 2): agrees.": (
            f"It loses {lost:.0f} points here and {they_lost:.1f} on average in the paper (0.5B)."
        ),
        "MARS is better than AR SFT (Tables 2 and 3): not here.": (
            f"{min(mars):.1f} to {max(mars):.1f} % against {ar:.1f} %, within the spread of the seeds. The "
            f"paper gains {gained('0.5B', small)} points at 0.5B and {gained('7B', 'AR SFT')} at 7B for "
            "B = 4, 8 and 16."
        ),
        "More AR training does not help (Table 2): not here.": (
            f"Twice the steps change the accuracy by {more:+.1f} points, about as much as the spread; in "
            f"the paper by {they_more:+.1f} (0.5B)."
        ),
        "τ = 0.95 costs little (Table 4): agrees for small blocks.": (
            f"It costs {ours_cost} points here for B = 4, 8 and 16; in the paper {each(cost('0.5B'))} at "
            f"0.5B and {each(cost('7B'))} at 7B. Tokens per forward are {several}; in the paper "
            f"{rates('0.5B')} at 0.5B and {rates('7B')} at 7B. These worlds follow more from their "
            "questions than chat does, and larger blocks are slower here after so few steps."
        ),
        "Jacobi needs no training and gives little (Table 9): agrees.": (
            f"{jacobi:.2f} tokens per forward; the paper has {their_jacobi:.2f}."
        ),
        "Lossless, which the paper does not have,": (
            f"accepts the most tokens per forward at every B, {lossless}, and its answers are those of one "
            "token per forward. Time was not compared in these runs."
        ),
    }
    sources = "`assets/results/paper.json` and `assets/paper_tables.json`"
    return "\n".join(f"- **{claim}** {said}" for claim, said in bullets.items()) + (
        f"\n\n<sub>Means over seeds, from {sources}.</sub>"
    )


# -------------------------------------------------------------------------------------- batches


def _batches() -> dict[int, dict[str, dict]]:
    """The methods by batch size; of the block caches of one size the fastest alone."""
    by_size: dict[int, dict[str, dict]] = {}
    for row in results.read("batches.json")["rows"]:
        by_size.setdefault(row["size"], {})[row["method"]] = row
    for methods in by_size.values():
        blocks = [name for name in methods if "block cache" in name]
        best = min(blocks, key=lambda name: statistics.median(methods[name]["seconds"]))
        for name in blocks:
            if name != best:
                del methods[name]
    return by_size


def batches() -> str:
    measured = results.read("batches.json")
    rows = [
        [
            str(size),
            name,
            f"{row['tokens'] / statistics.median(row['seconds']):.0f}",
            results.ranged(
                results.ratios(row["seconds"], methods[throughput.BASELINE]["seconds"]), unit="×"
            ),
            str(row["forwards"]),
            str(row["positions"]),
            f"{row['waiting']:.0%}",
        ]
        for size, methods in _batches().items()
        for name, row in methods.items()
    ]
    columns = ["batch", "method", "tokens per second", "faster than AR", "forwards", "positions", "waiting"]
    return table(columns, rows) + source(
        measured, f"{measured['prompts']} held-out prompts", rounds(measured)
    )


def batch_leaders() -> str:
    rows = []
    for size, methods in _batches().items():
        best, *tied = results.fastest({name: row["seconds"] for name, row in methods.items()})
        base = methods[throughput.BASELINE]["seconds"]
        faster = results.ranged(results.ratios(methods[best]["seconds"], base), unit="×")
        rows.append([str(size), best, faster, listed(tied) if tied else "none"])
    columns = ["batch", "smallest median time", "faster than AR", "at least as fast in some round"]
    return table(columns, rows) + source(results.read("batches.json"))


def speculative() -> str:
    measured = results.read("speculative.json")
    base = measured["rows"][0]["seconds"]
    rows = [
        [
            row["draft"],
            row["target"],
            "" if row["tau"] is None else f"{row['tau']:g}",
            f"{row['accuracy']:.1%}",
            f"{row['tokens'] / row['target_forwards']:.2f}",
            f"{row['verified'] / row['drafts']:.0%}" if row["drafts"] else "",
            str(row["draft_forwards"] or ""),
            results.ranged(results.ratios(row["seconds"], base), unit="×"),
        ]
        for row in measured["rows"]
    ]
    columns = ["drafted by", "target", "τ", "right", "tokens per target forward", "drafts accepted"]
    columns += ["forwards of the draft", "faster than ar"]

    def rate(tau: float) -> float:
        found = next(
            row
            for row in measured["rows"]
            if (row["draft"], row["target"], row["tau"]) == ("ar", "mars", tau) and row["draft_forwards"]
        )
        return found["tokens"] / found["target_forwards"]

    theirs = [row["tokens_per_target_forward"] for row in PAPER["table6_speculative"][:2]]
    drawn = [
        [row["draft"], row["target"], f"{row['common']:.1%}", f"{row['rejection']:.1%}"]
        for row in measured["drawn"]
    ]
    return (
        table(columns, rows)
        + f"\n\nThe masks after the drafts add {rate(0.95) - rate(1.0):.2f} tokens to a forward of the "
        f"target here ({rate(1.0):.2f} to {rate(0.95):.2f}), and {theirs[1] - theirs[0]:.2f} in the paper "
        f"({theirs[0]:.2f} to {theirs[1]:.2f}), where text is harder to guess.\n\nAt temperature 1, the "
        "share of drafts accepted with common noise, and the share rejection sampling would accept:\n\n"
        + table(["drafted by", "verified by", "common noise", "rejection sampling"], drawn)
        + source(measured, f"{measured['prompts']} held-out prompts", rounds(measured))
    )


def load() -> str:
    measured = results.read("load.json")

    def seconds(values: dict) -> str:
        return ", ".join(f"{value:.2f}" for value in values.values())

    rows = [
        [
            row["trace"],
            row["policy"],
            str(row["requests"]),
            seconds(row["latency"]),
            results.ranged(row["p95"]),
            seconds(row["first_token"]),
            f"{row['tokens_per_second']:.0f}",
            f"{row['queue']['mean']:.1f}, {row['queue']['most']}",
            f"{row['accuracy']:.1%}",
        ]
        for row in measured["traces"]
    ]
    columns = ["arrivals", "policy", "requests", "latency, s", "p95 by seed, s", "first token, s"]
    columns += ["tokens per second", "queue: mean, most", "right"]
    burst = {row["policy"]: row for row in measured["traces"] if row["trace"] == "burst"}
    ar, controlled = burst[BASELINE], next(row for name, row in burst.items() if "controller" in name)
    less = [100 * (1 - b / a) for a, b in zip(ar["p95"], controlled["p95"], strict=True)]
    seeds = len(measured["seeds"])
    return (
        table(columns, rows)
        + "\n\nLatencies are p50, p95 and, from 200 requests on, p99, over the requests of all seeds. In "
        f"the burst the controller's p95 is {results.ranged(less, 0, ' %')} below AR's, seed by seed, with "
        f"{controlled['accuracy']:.1%} right answers against {ar['accuracy']:.1%}."
        + source(
            measured,
            f"batch {measured['size']}, load 1 is {measured['capacity']:.1f} requests per second, "
            f"{measured['seconds']:g} s of arrivals, {seeds} seeds",
        )
    )


def outside() -> str:
    """What tells a prompt outside the tiny model's worlds."""
    measured = results.read("outside.json")
    rows = [
        [
            signal["signal"],
            f"{signal['area']:.3f}",
            f"{signal['below']:.3g}",
            f"{signal['wrong']:.1%}",
            f"{signal['found']:.1%}",
        ]
        for signal in measured["signals"]
    ]
    columns = ["signal", "area under ROC", "outside below", "held-out called outside", "outside found"]
    chosen, checked = measured["held_out"]
    counts = (
        f"{chosen} held-out prompts to choose thresholds on, {checked} to check them, {measured['outside']}"
    )
    return table(columns, rows) + source(measured, f"{counts} prompts from outside")


FIGURES: dict[str, Callable[[], str]] = {
    "headline": headline,
    "tiny": tiny,
    "curve": curve,
    "outside": outside,
    "speed": speed,
    "page": page,
    "training": training,
    "paper": paper,
    "worlds": worlds,
    "agreement": agreement,
    "options": options,
    "batches": batches,
    "batch-leaders": batch_leaders,
    "speculative": speculative,
    "load": load,
}


def main() -> None:
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
