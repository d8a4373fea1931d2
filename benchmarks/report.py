"""The figures of the README and of docs/: written from assets/results, never by hand.

    python -m benchmarks.report

fills in everything between `<!-- figures: NAME -->` and `<!-- end -->` in every document. CI compares.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

from pandas import DataFrame

from benchmarks import agreement
from benchmarks import replicas as simulated
from benchmarks import visitors as visiting
from mars_demo.assets import read_json
from mars_demo.evaluation import results, throughput
from mars_demo.evaluation.accuracy import Row, average
from mars_demo.evaluation.frontier import Frontier
from mars_demo.evaluation.load_test import BASELINE
from mars_demo.evaluation.paper_tables import PAPER, benchmarks
from mars_demo.limits import all_limits
from mars_demo.markdown import table
from mars_demo.tasks import TASKS

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """A document with its figures as the results say them."""
    return BLOCK.sub(lambda found: f"{found[1]}{FIGURES[found[2]]()}\n{found[3]}", text)


def shown(rows: Sequence[dict]) -> str:
    """Rows, each with its cells by column, as a Markdown table."""
    return table(DataFrame(rows))


def source(measured: dict, *more: str) -> str:
    """Where a block's figures come from."""
    return f"\n\n<sub>`{measured['command']}` · {' · '.join([measured['machine'], *more])}</sub>"


def rounds(measured: dict) -> str:
    count = len(measured["rows"][0]["seconds"])
    return f"{count} rounds in which the methods take turns: median (smallest–largest)"


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def faster(seconds: Sequence[float], base: Sequence[float]) -> str:
    """How many times as fast as the base, over the rounds."""
    return results.ranged(results.ratios(seconds, base), unit="×")


# ------------------------------------------------------------------------------------ the README


def headline() -> str:
    """Five rows for the README."""
    rows = [*_headline_alone(), *_headline_together()]
    columns = ["`mars-tiny`, on a CPU", "quality", "speed"]
    files = ", ".join(f"`assets/results/{name}.json`" for name in ("tiny", "speed", "batches", "load"))
    return table(DataFrame(rows, columns=columns)) + (
        f"\n\n<sub>From {files}, which name their commands and machines. In parentheses: the smallest and "
        "the largest value over several rounds.</sub>"
    )


def _headline_alone() -> list[list[str]]:
    """One prompt at a time."""
    methods = _tiny()
    ar, tau, lossless = (average(methods[name]) for name in ("τ = 1", "τ = 0.95", "lossless"))
    speeds = {row["method"]: row["seconds"] for row in results.read("speed.json")["rows"]}
    best = min((n for n in speeds if "lossless" in n), key=lambda n: statistics.median(speeds[n]))
    equal = f"{results.read('tiny.json')['lossless_equal']} of {lossless.n} answers equal AR's"
    right = f"{tau.accuracy:.1%} right (AR {ar.accuracy:.1%})"
    return [
        [
            "MARS, τ = 0.95, one prompt",
            f"{tau.tokens_per_forward:.2f} tokens per forward, {right}",
            f"{faster(speeds['mars τ = 0.95'], speeds['ar'])} as fast as AR",
        ],
        [
            "lossless, one prompt",
            f"{lossless.tokens_per_forward:.2f} tokens per forward, {equal}",
            f"{faster(speeds[best], speeds['ar'])} as fast as AR",
        ],
        [
            "transformers' `generate`, one prompt",
            "one token per forward",
            f"{faster(speeds['transformers generate'], speeds['ar'])} as fast as AR here",
        ],
    ]


def _headline_together() -> list[list[str]]:
    """Batches and load."""
    eight = {name: row["seconds"] for name, row in _batches()[8].items()}
    cursor = eight[f"MARS τ = {throughput.TAU:g}, cursor cache"]
    ar, controlled = _burst()
    return [
        [
            "MARS, τ = 0.95, batches of 8, cursor cache",
            "every row gives the tokens it gives alone",
            f"{faster(cursor, eight[throughput.BASELINE])} as fast as AR in the same batch",
        ],
        [
            "a burst of requests, τ set by the queue",
            f"{controlled['accuracy']:.1%} right (AR {ar['accuracy']:.1%})",
            f"p95 latency {controlled['latency']['p95']:.2f} s (AR {ar['latency']['p95']:.2f} s)",
        ],
    ]


# -------------------------------------------------------------------------------- the tiny models


def _tiny() -> dict[str, list[Row]]:
    methods = results.read("tiny.json")["methods"]
    return {name: [Row(**row) for row in rows] for name, rows in methods.items()}


def tiny() -> str:
    measured, methods = results.read("tiny.json"), _tiny()
    chosen = {name: methods[name] for name in ("ar-tiny", "τ = 1", "τ = 0.95", "τ = 0.5", "lossless")}
    rows = [
        {"task": every[0].task} | {name: _pair(row) for name, row in zip(chosen, every)}
        for every in zip(*([*rows, average(rows)] for rows in chosen.values()))
    ]
    limit = measured["prompts_per_task"]
    return (
        shown(rows)
        + f"\n\nLossless: {measured['lossless_equal']} of {limit * len(TASKS)} answers equal those of "
        "`ar`, token for token." + source(measured, f"{limit} held-out prompts per task, greedy")
    )


def _pair(row: Row) -> str:
    return f"{row.accuracy:.1%}, {row.tokens_per_forward:.2f}"


def curve() -> str:
    rows = [
        {
            "τ": name.removeprefix("τ = "),
            "accuracy": f"{average(rows).accuracy:.1%}",
            "tokens per forward": f"{average(rows).tokens_per_forward:.2f}",
        }
        for name, rows in _tiny().items()
        if name.startswith("τ")
    ]
    return shown(rows) + source(results.read("tiny.json"))


def frontier() -> str:
    """A table per model: AR, lossless, and every criterion at a few τ."""
    measured = results.read("frontier.json")
    if measured is None:
        return "Not measured yet."
    tables = [_frontier(each) for each in map(Frontier.read, measured["sweeps"])]
    return "\n\n".join(tables) + source(measured)


def six() -> str:
    """The paper's benchmarks on our models."""
    found = benchmarks()
    return "Not measured yet." if found is None else f"{table(found.frame)}\n\n<sub>{found.source}</sub>"


def _frontier(measured: Frontier) -> str:
    chosen = [p for p in measured.points if p.setting.tau in (None, 0.95, 0.8, 0.5)]
    rows = [
        {
            "slots are scored by": point.setting.title,
            "right": _between(point.accuracy, point.accuracy_interval, ".1%"),
            "tokens per forward": _between(
                point.tokens_per_forward, point.tokens_per_forward_interval, ".2f"
            ),
            "faster than AR": f"{measured.faster(point):.2f}×",
            "answers unlike AR's": sum(one.leaves is not None for one in point.outcomes),
        }
        for point in chosen
    ]
    return (
        f"`{measured.model}`, {measured.title}, {len(measured.prompts)} prompts in batches of "
        f"{measured.size}, {measured.machine}:\n\n{shown(rows)}"
    )


def _between(value: float, interval: tuple[float, float], form: str) -> str:
    return f"{value:{form}} ({interval[0]:{form}}–{interval[1]:{form}})"


def outside() -> str:
    """What tells a prompt outside the tiny model's worlds."""
    measured = results.read("outside.json")
    rows = [
        {
            "signal": signal["signal"],
            "area under ROC": f"{signal['area']:.3f}",
            "outside below": f"{signal['below']:.3g}",
            "held-out called outside": f"{signal['wrong']:.1%}",
            "outside found": f"{signal['found']:.1%}",
        }
        for signal in measured["signals"]
    ]
    chosen, checked = measured["held_out"]
    counts = (
        f"{chosen} held-out prompts to choose thresholds on, {checked} to check them, {measured['outside']}"
    )
    return shown(rows) + source(measured, f"{counts} prompts from outside")


# ----------------------------------------------------------------------------- speed, one prompt


def speed(name: str = "speed.json") -> str:
    measured = results.read(name)
    seconds = {row["method"]: row["seconds"] for row in measured["rows"]}
    rows = [
        {
            "method": row["method"],
            "tokens per forward": f"{row['tokens'] / row['forwards']:.2f}",
            "faster than ar": faster(row["seconds"], seconds["ar"]),
            "ms per forward": f"{1000 * statistics.median(row['seconds']) / row['forwards']:.1f}",
        }
        for row in measured["rows"]
    ]
    unrecorded = seconds.pop("mars τ = 0.95, nothing recorded")
    ratios = results.ratios(unrecorded, seconds["mars τ = 0.95"])
    cost = results.ranged([100 * (ratio - 1) for ratio in ratios], 1, " %")
    best, *tied = results.fastest(seconds)
    also = f"; at least as fast in some round: {listed(tied)}" if tied else ", in every round"
    return (
        shown(rows)
        + f"\n\nThe smallest median time: {best}{also}. Recording every slot of every forward costs "
        f"{cost} of the decoding time." + source(measured, _asked(measured), rounds(measured))
    )


def _asked(measured: dict) -> str:
    longest = measured.get("max_new_tokens")
    return f"{measured['prompts']} held-out prompts" + (
        f", at most {longest} tokens each" if longest else ""
    )


def chat() -> str:
    """What the chat model keeps of its base and how many tokens a forward accepts."""
    measured = results.read("chat.json")
    rows = [
        {
            "answers": row["method"],
            "tokens per forward": f"{row['tokens_per_forward']:.2f}",
            "checked instructions followed": "–" if row["checks"] is None else f"{row['checks']:.1%}",
            "same next token as the base": "–" if row["agreement"] is None else f"{row['agreement']:.1%}",
            "log-likelihood by the base": f"{row['log_likelihood']:.3f}",
            "answers equal to AR": "–"
            if row["method"] == "base"
            else f"{row['equal']} of {row['prompts']}",
        }
        for row in measured["rows"]
    ]
    return shown(rows) + source(
        measured, f"{measured['prompts']} held-out prompts, {measured['instructions']} checked instructions"
    )


def chat_recipe() -> str:
    """What the training of the bundled chat model took, from the recipe beside its weights."""
    rows = [
        {
            "training": number,
            "steps": one["steps"],
            "million clean tokens": f"{one['tokens'] / 1e6:.2f}",
            "minutes": one["minutes"],
            "SFT loss, λ": f"{one['sft_weight']:g}",
            "reference, μ": f"{one['reference_weight']:g}",
            "learning rate": f"{one['learning_rate']:g}",
            "machine": one["machine"],
        }
        for number, one in enumerate(read_json("mars-smollm2-135m", "recipe.json")["trainings"], start=1)
    ]
    return shown(rows)


BARS = {"tau": ("at τ = 0.95", 1.6), "lossless": ("lossless", 1.9)}  # tokens per forward


def chat_learning() -> str:
    """What the chat model has learned after how many tokens, beside what is aimed at."""
    measured = results.read("chat-learning.json")
    found = measured["rows"]
    rows = [
        {
            "million clean tokens": f"{row['tokens'] / 1e6:.2f}",
            **{f"slot {slot} right": f"{share:.1%}" for slot, share in enumerate(row["right"], start=1)},
            "nats from the base": f"{row['divergence']:.3f}",
            **{f"tokens per forward, {title}": f"{row[key]:.2f}" for key, (title, _) in BARS.items()},
        }
        for row in found
    ]
    meant = " and ".join(f"{least} tokens per forward {title}" for title, least in BARS.values())
    said = (
        f"The aim is {meant}, with at least 95 % of the base's next tokens, and instructions followed as "
        "often as by the base, within one point in a hundred. None of it is reached yet."
    )
    return f"{shown(rows)}\n\n{said}" + source(
        measured, f"{measured['prompts']} held-out prompts answered, guesses on all held-out answers"
    )


def chat_speed() -> str:
    return speed("chat-speed.json")


def few_bits() -> str:
    """Decoding in few bits against llama.cpp and transformers."""
    measured = results.read("llama-cpp.json")
    per_token = {
        row["method"]: [seconds / row["tokens"] for seconds in row["seconds"]] for row in measured["rows"]
    }
    base = next(iter(per_token.values()))
    rows = [
        {
            "method": row["method"],
            "tokens per forward": f"{row['tokens'] / row['forwards']:.2f}",
            "ms per token": f"{1000 * statistics.median(per_token[row['method']]):.1f}",
            "as fast as llama.cpp": faster(per_token[row["method"]], base),
        }
        for row in measured["rows"]
    ]
    return shown(rows) + source(measured, _asked(measured), rounds(measured))


def packing() -> str:
    """What a model keeps when its weights are packed."""
    measured = results.read("packing.json")
    rows = [
        {
            "packed as": row["recipe"],
            "rounding": row["rounding"],
            "MB": f"{row['megabytes']:.1f}",
            "error of the weights": f"{row['error']:.1%}",
            "same next token": f"{row['agreement']:.1%}",
            "nats from the unpacked model": f"{row['divergence']:.3f}",
            "tokens per forward, τ = 0.95": f"{row['tokens_per_forward']:.2f}",
        }
        for row in measured["rows"]
    ]
    before = measured["unpacked"]
    said = (
        f"Unpacked, in bfloat16, the weights take {before['megabytes']:.1f} MB and reach "
        f"{before['tokens_per_forward']:.2f} tokens per forward."
    )
    return f"{shown(rows)}\n\n{said}" + source(measured, f"{measured['prompts']} held-out prompts")


def copies() -> str:
    """Answers that repeat their prompts."""
    measured = results.read("copying.json")
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "method": row["method"],
            "tokens per forward": f"{row['tokens'] / row['forwards']:.2f}",
            "copied": f"{row['sources'].get('copy', 0) / row['tokens']:.0%}",
            "answers equal to ar": f"{row['equal']} of {measured['prompts']}",
            "faster than ar": faster(row["seconds"], base),
        }
        for row in measured["rows"]
    ]
    longest = f"{measured['prompts']} prompts, at most {measured['max_new_tokens']} tokens each"
    return shown(rows) + source(measured, longest, rounds(measured))


def windows() -> str:
    """The adaptive window against the best fixed one, which was chosen afterwards, set by set."""
    rows, notes = [], []
    for file in ("window-tiny.json", "window-chat.json"):
        measured = results.read(file)
        model = measured["machine"].split(",")[0]
        for mode in ("mars", "lossless"):
            sets = [row for row in measured["rows"] if row["mode"] == mode]
            apart = sorted(sets[:-1] or sets, key=lambda row: statistics.median(_of_best(row)))
            cells = {"model": model, "mode": mode, "prompts": sets[-1]["set"]}
            cells |= {"best fixed window": sets[-1]["best"], "adaptive": _ranged(sets[-1])}
            cells["set where it is farthest behind"] = (
                f"{apart[0]['set']}: {_ranged(apart[0])}" if len(sets) > 1 else None
            )
            rows.append(cells)
        notes.append(source(measured))
    return shown(rows) + "".join(notes)


def _of_best(row: dict) -> list[float]:
    """How many times as fast as the best fixed window the adaptive one was, over the rounds."""
    found = row["tokens_per_second"]
    return [ours / fixed for ours, fixed in zip(found["adaptive"], found[row["best"]])]


def _ranged(row: dict) -> str:
    return results.ranged(_of_best(row), unit="×")


def kernels() -> str:
    """Products of a forward with each kernel."""
    measured = results.read("kernels.json")
    rows = [
        {"kernel": row["kernel"]} | {f"k = {k}": f"{ms:.1f}" for k, ms in row["ms"].items()}
        for row in measured["rows"]
        if "ms" in row
    ]
    return shown(rows) + source(measured, "milliseconds, medians")


def precision() -> str:
    """What few bits keep of float32."""
    measured = results.read("precision.json")
    rows = [
        {
            "precision": row["precision"],
            f"same choice, of {measured['compared']} tokens": f"{row['same_choice']:.1%}",
            f"checks held, of {row['checked']}": f"{row['held']} ({row['held'] / row['checked']:.1%})",
        }
        for row in measured["rows"]
    ]
    return shown(rows) + source(measured, f"{measured['prompts']} held-out prompts")


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
        f"A run of {measured['tokens']} tokens in {measured['forwards']} forwards, "
        f"{measured['seconds']:.1f} s in all, takes {lost} longer when a page in headless Chromium draws "
        f"it; {tasks}." + source(measured, f"{len(runs)} runs")
    )


# ------------------------------------------------------------------------------------- training


def training() -> str:
    measured = results.read("training.json")
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "objective": row["objective"],
            "positions per step": row["positions"] // measured["steps"],
            "clean tokens per second": f"{row['tokens'] / statistics.median(row['seconds']):.0f}",
            "step time ÷ AR": results.ranged(results.ratios(base, row["seconds"])),
        }
        for row in measured["rows"]
    ]
    known = (
        f"`{measured['model']}`, {measured['steps']} steps of {measured['batch_tokens']} clean positions"
    )
    return shown(rows) + source(measured, known, rounds(measured))


STEPS = {"plain": "as it is", "compiled": "compiled", "preloaded": "compiled, tcmalloc preloaded"}


def training_chat() -> str:
    rows = []
    for name, title in STEPS.items():
        measured = results.read(f"training-{name}.json")
        ar, mars = measured["rows"]
        row = {"step": title}
        for one in (ar, mars):
            seconds = statistics.median(one["seconds"])
            share = one["flops"] / seconds / measured["peak"]
            row[f"{one['objective']}, clean tokens per second"] = f"{one['tokens'] / seconds:.0f}"
            row[f"{one['objective']}, share of the peak"] = f"{share:.0%}"
        rows.append(row | {"MARS ÷ AR": results.ranged(results.ratios(ar["seconds"], mars["seconds"]))})
    more = mars["positions"] / ar["positions"]
    memory = {
        name: results.read(f"training-memory-{name}.json")["memory"] / 2**30 for name in ("ar", "mars")
    }
    known = (
        f"`{measured['model']}`, {measured['steps']} steps of {measured['batch_tokens']} clean positions"
    )
    said = (
        f"Of the same conversations a MARS step computes {more:.2f} times the positions of an AR step, and "
        "nearly twice as many targets. The peak is what a large bfloat16 product reached in the same "
        f"process, {measured['peak'] / 1e12:.1f} TFLOP/s. A process that trains, compiled with tcmalloc, "
        f"held at most {memory['ar']:.1f} GiB for AR and {memory['mars']:.1f} GiB for MARS."
    )
    return f"{shown(rows)}\n\n{said}" + source(measured, known, rounds(measured))


# ------------------------------------------------------------------------- the paper's comparison

OPTIONS = (
    "MARS, B = 8",
    "fixed blocks",
    "fixed blocks, whole copy (2L)",
    "KL weight 1",
    "slot decay 0.8",
    "self-distilled answers",
    "self-distilled answers, slot decay 0.8",
)


def _summary(title: str, methods: Sequence[str]) -> str:
    measured, rows = results.read("paper.json"), []
    for (method, decoding), found in agreement.runs(methods).items():
        seeds = results.averages(found, "seed").values()
        rows.append(
            {
                title: method,
                "decoding": decoding,
                "accuracy": f"{results.spread([100 * seed.accuracy for seed in seeds], 1)} %",
                "tokens per forward": results.spread([seed.tokens_per_forward for seed in seeds], 2),
                "seeds": len(seeds),
            }
        )
    known = f"{measured['steps']} steps, {measured['limit']} held-out prompts per world, greedy"
    return shown(rows) + source(measured, known)


def paper() -> str:
    measured = results.read("paper.json")
    prompts = measured["limit"] * len(TASKS)
    share = agreement.accuracy("AR SFT", "ar") / 100
    error = 100 * (share * (1 - share) / prompts) ** 0.5
    seeds = len({row["seed"] for row in measured["rows"]})
    return (
        f"Each of the {seeds} seeds answers the same {prompts} held-out prompts. ± is the standard "
        f"deviation over the seeds. It leaves out the sampling error over prompts, about {error:.1f} "
        f"points (one standard error of a share of {share:.0%} in {prompts}). Windows have B + 1 slots; "
        "the paper's have B.\n\n" + _summary("method", agreement.METHODS)
    )


def worlds() -> str:
    rows = []
    for (method, decoding), found in agreement.runs(agreement.METHODS).items():
        by_task = results.averages(found, "task")
        shares = {task: f"{100 * by_task[task].accuracy:.0f}" for task in TASKS}
        rows.append({"method": method, "decoding": decoding} | shares)
    return shown(rows) + source(results.read("paper.json"), "percent right")


def options() -> str:
    return _summary("option", OPTIONS)


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
        {
            "batch": size,
            "method": name,
            "tokens per second": f"{row['tokens'] / statistics.median(row['seconds']):.0f}",
            "faster than AR": faster(row["seconds"], methods[throughput.BASELINE]["seconds"]),
            "forwards": row["forwards"],
            "positions": row["positions"],
            "waiting": f"{row['waiting']:.0%}",
        }
        for size, methods in _batches().items()
        for name, row in methods.items()
    ]
    return shown(rows) + source(measured, f"{measured['prompts']} held-out prompts", rounds(measured))


def batch_leaders() -> str:
    rows = []
    for size, methods in _batches().items():
        best, *tied = results.fastest({name: row["seconds"] for name, row in methods.items()})
        rows.append(
            {
                "batch": size,
                "smallest median time": best,
                "faster than AR": faster(methods[best]["seconds"], methods[throughput.BASELINE]["seconds"]),
                "at least as fast in some round": listed(tied) if tied else "none",
            }
        )
    return shown(rows) + source(results.read("batches.json"))


def speculative() -> str:
    measured = results.read("speculative.json")
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "drafted by": row["draft"],
            "target": row["target"],
            "τ": None if row["tau"] is None else f"{row['tau']:g}",
            "right": f"{row['accuracy']:.1%}",
            "tokens per target forward": f"{row['tokens'] / row['target_forwards']:.2f}",
            "drafts accepted": f"{row['verified'] / row['drafts']:.0%}" if row["drafts"] else None,
            "forwards of the draft": row["draft_forwards"] or "–",
            "faster than ar": faster(row["seconds"], base),
        }
        for row in measured["rows"]
    ]
    drawn = [
        {
            "drafted by": row["draft"],
            "verified by": row["target"],
            "common noise": f"{row['common']:.1%}",
            "rejection sampling": f"{row['rejection']:.1%}",
        }
        for row in measured["drawn"]
    ]
    return (
        f"{shown(rows)}\n\n{_masks_after_drafts(measured['rows'])}\n\nAt temperature 1, the share of "
        "drafts accepted with common noise, and the share that rejection sampling would accept:\n\n"
        + shown(drawn)
        + source(measured, f"{measured['prompts']} held-out prompts", rounds(measured))
    )


def _masks_after_drafts(rows: Sequence[dict]) -> str:
    """What the masks add to speculative decoding, here and in the paper."""

    def rate(tau: float) -> float:
        found = next(
            row
            for row in rows
            if (row["draft"], row["target"], row["tau"]) == ("ar", "mars", tau) and row["draft_forwards"]
        )
        return found["tokens"] / found["target_forwards"]

    theirs = [row["tokens_per_target_forward"] for row in PAPER["table6_speculative"][:2]]
    return (
        f"The masks after the drafts add {rate(0.95) - rate(1.0):.2f} tokens to a forward of the target "
        f"here ({rate(1.0):.2f} to {rate(0.95):.2f}), and {theirs[1] - theirs[0]:.2f} in the paper "
        f"({theirs[0]:.2f} to {theirs[1]:.2f}), where text is harder to guess."
    )


# ----------------------------------------------------------------------------------------- load


def _burst() -> tuple[dict, dict]:
    """What AR and the controller made of the burst."""
    rows = {row["policy"]: row for row in results.read("load.json")["traces"] if row["trace"] == "burst"}
    return rows[BASELINE], next(row for name, row in rows.items() if "controller" in name)


def load() -> str:
    measured = results.read("load.json")

    def seconds(values: dict) -> str:
        return ", ".join(f"{value:.2f}" for value in values.values())

    rows = [
        {
            "arrivals": row["trace"],
            "policy": row["policy"],
            "requests": row["requests"],
            "latency, s": seconds(row["latency"]),
            "p95 by seed, s": results.ranged(row["p95"]),
            "first token, s": seconds(row["first_token"]),
            "tokens per second": f"{row['tokens_per_second']:.0f}",
            "queue: mean, most": f"{row['queue']['mean']:.1f}, {row['queue']['most']}",
            "right": f"{row['accuracy']:.1%}",
        }
        for row in measured["traces"]
    ]
    ar, controlled = _burst()
    less = [100 * (1 - b / a) for a, b in zip(ar["p95"], controlled["p95"], strict=True)]
    return (
        shown(rows)
        + "\n\nLatencies are p50, p95 and, from 200 requests on, p99, over the requests of all seeds. In "
        f"the burst the controller's p95 is {results.ranged(less, 0, ' %')} below AR's, seed by seed, with "
        f"{controlled['accuracy']:.1%} right answers against {ar['accuracy']:.1%}."
        + source(
            measured,
            f"batch {measured['size']}, load 1 is {measured['capacity']:.1f} requests per second, "
            f"{measured['seconds']:g} s of arrivals, {len(measured['seeds'])} seeds",
        )
    )


# -------------------------------------------------------------------------------------- visitors


def visitors() -> str:
    return visiting.table()


# ------------------------------------------------------------------------------ what one machine serves


def serving() -> str:
    """The endpoint under closed and open loads."""
    measured = results.read("serving.json")
    if measured is None:
        return _not_measured("serving")
    rows = [
        {
            "model": f"`{found['model']}`",
            "load": f"{row['clients']} clients"
            if "clients" in row
            else f"{row['arrivals_per_second']:.2f} arrivals per second",
            "requests per second": f"{row['requests_per_second']:.2f}",
            "tokens per second": f"{row['tokens_per_second']:.0f}",
            "first token, s": _listed_values(row["first_token"], ".2f"),
            "ms per token": _listed_values(row["ms_per_token"], ".1f"),
            "latency, s": _listed_values(row["latency"], ".2f"),
        }
        for found in measured["models"]
        for row in [*found["closed"], found["open"]]
    ]
    places = f"{measured['size']} requests share a forward"
    longest = f"at most {measured['max_new_tokens']} tokens each"
    return (
        shown(rows)
        + "\n\nTimes are p50, p95 and, from 200 requests on, p99, as the clients measured them."
        + source(measured, f"{places}, {longest}, {measured['seconds']:g} s of each load")
    )


def sharing() -> str:
    """Requests in turns, and requests that share forwards."""
    measured = results.read("serving.json")
    if measured is None:
        return _not_measured("serving")
    rows = []
    for found in measured["models"]:
        ways: dict[int, dict[str, dict]] = {}
        for row in found["together"]:
            ways.setdefault(row["requests"], {})[row["way"]] = row
        for requests, both in ways.items():
            turns, shared = (both[way]["tokens_per_second"] for way in ("in turns", "shared"))
            rows.append(
                {
                    "model": f"`{found['model']}`",
                    "requests at once": requests,
                    f"tokens per second in turns ({found['precision']['in turns']})": results.ranged(
                        turns, 0
                    ),
                    f"sharing forwards ({found['precision']['shared']})": results.ranged(shared, 0),
                    "sharing is faster by": faster(turns, shared),
                }
            )
    tables = [
        shown([row for row in rows if row["model"] == f"`{found['model']}`"])
        for found in measured["models"]
    ]
    return "\n\n".join(tables) + source(measured, f"{measured['rounds']} rounds")


def replicas() -> str:
    """How many replicas a number of visitors needs."""
    measured = results.read("replicas.json")
    if measured is None:
        return _not_measured("replicas")
    known = (
        f"`{measured['model']}`, a request per visitor every {measured['every']:g} s, the first token "
        f"within {measured['bound']:g} s for 95 %, {measured['size']} requests share a replica"
    )
    return simulated.shown(measured["rows"]) + source(measured, known)


def _not_measured(name: str) -> str:
    command = f"python -m benchmarks.{name} --output assets/results/{name}.json"
    return f"Not measured yet; `{command}` measures what is shown here."


def _listed_values(values: dict[str, float], form: str) -> str:
    return ", ".join(f"{value:{form}}" for value in values.values())


def limits() -> str:
    """What an owner can set, with what holds where nothing is set."""
    found = all_limits().values()
    rows = [
        {
            "variable": f"`{one.variable}`",
            "default": f"{one.default}",
            "limits": one.about + ("" if one.least else "; 0 switches it off"),
        }
        for one in found
    ]
    return shown(rows)


FIGURES: dict[str, Callable[[], str]] = {
    "headline": headline,
    "tiny": tiny,
    "curve": curve,
    "frontier": frontier,
    "outside": outside,
    "speed": speed,
    "chat": chat,
    "chat-learning": chat_learning,
    "chat-recipe": chat_recipe,
    "chat-speed": chat_speed,
    "few-bits": few_bits,
    "packing": packing,
    "copies": copies,
    "windows": windows,
    "six": six,
    "kernels": kernels,
    "precision": precision,
    "page": page,
    "training": training,
    "training-chat": training_chat,
    "paper": paper,
    "worlds": worlds,
    "agreement": agreement.claims,
    "options": options,
    "batches": batches,
    "batch-leaders": batch_leaders,
    "speculative": speculative,
    "load": load,
    "visitors": visitors,
    "serving": serving,
    "sharing": sharing,
    "replicas": replicas,
    "limits": limits,
}


def main() -> None:
    for name in DOCUMENTS:
        path = ROOT / name
        path.write_text(filled(path.read_text(encoding="utf-8")), encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
