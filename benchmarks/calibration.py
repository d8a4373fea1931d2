"""The meaning of a score and of a threshold: how many slots, and how many answers, equal those of AR.

    python -m benchmarks.calibration --model mars-smollm2-135m [--criteria probability] [--prompts 136]

**Slots.** Windows follow AR's greedy answer: each begins where lossless decoding, with drafts of masks
alone, begins its next one. A slot is right if its token is the one at its place of AR's answer, which is
the greedy continuation of the text before the window. Slots after the end of the answer do not count.

**Thresholds.** MARS answers the prompts at each τ. An accepted slot after the first is AR's own if its
token is AR's greedy choice after the text decoded up to it, right or wrong.
"""

import json
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import report
from mars_demo.core import layout as layouts
from mars_demo.core.acceptance import CRITERIA, TAU
from mars_demo.core.messages import user
from mars_demo.core.names import CHAT, TINY
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode, encoded
from mars_demo.decoding.request import Request
from mars_demo.evaluation import bootstrap, calibration, results
from mars_demo.evaluation.frontier import TAUS
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS, Question, questions
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine

FILE = calibration.FILE
SETS = {TINY: "tasks", CHAT: "skills"}
OPTIONS = {"model": str, "criteria": [*CRITERIA], "prompts": 136, "taus": [*TAUS]}
EDGES = (0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1)  # of the bins of scores
LATE = 4  # from this slot on they are counted together
SHOWN = (0.99, 0.95, 0.8, 0.6)  # τ of the table


class Asked(NamedTuple):
    """A question, its encoded prompt and AR's greedy answer."""

    question: Question
    prompt_ids: list[int]
    answer: list[int]


def ask(checkpoint: Checkpoint, prompts: int) -> Iterator[Asked]:
    """Yield questions of the model's task set with AR's answers.

    Lossless decoding is faster than AR; that AR writes the same is checked.
    """
    for question in questions(SETS[checkpoint.name], prompts):
        ids = encoded(checkpoint, [user(question.prompt)], raw=False)
        request = Request("lossless", max_new_tokens=MAX_NEW_TOKENS)
        one = Asked(question, ids, decode(checkpoint, question.prompt, request).finish().token_ids)
        if own_choices(checkpoint, ids, one.answer) != one.answer:
            raise ValueError(f"The answer to this prompt is not AR's: {question.prompt!r}")
        yield one


def own_choices(checkpoint: Checkpoint, prompt_ids: Sequence[int], answer: Sequence[int]) -> list[int]:
    """Return AR's greedy choice at each place of an answer, after the answer's own tokens before it."""
    layout = layouts.causal([*prompt_ids, *answer[:-1]])
    return Engine(checkpoint.decoder).forward(layout, len(prompt_ids) - 1).argmax(-1).tolist()


# ------------------------------------------------------------------------------------------- slots


def slots(
    checkpoint: Checkpoint, criteria: Sequence[str], one: Asked
) -> Iterator[tuple[int, list[float], bool]]:
    """Yield number, scores and rightness of the slots after the first of the windows along an answer."""
    masks, count = checkpoint.block_size, len(one.answer)
    # One forward: group g of its masks follows the prompt and the first g tokens of the answer.
    layout = layouts.verification(one.prompt_ids, one.answer[:-1], masks, checkpoint.mask_id)
    logits = Engine(checkpoint.decoder).forward(layout, len(one.prompt_ids) - 1 + count)
    start, groups = 0, logits.unflatten(0, (count, masks))
    while start < count:
        p = groups[start].softmax(-1)
        tokens, places = p.argmax(-1), one.answer[start + 1 :]
        right = [token == own for token, own in zip(tokens.tolist(), places)]
        scores = zip(*(CRITERIA[criterion].score(p, tokens).tolist() for criterion in criteria))
        yield from zip(range(2, masks + 2), map(list, scores), right)
        start += 1 + sum(takewhile(bool, right))


def binned(counted: Iterable[tuple[int, float, bool]], last: int) -> dict[str, list[list[float]]]:
    """Return the number of slots, the sum of their scores and the number of right ones of each bin."""
    names = {slot: str(slot) if slot < LATE else f"{LATE}–{last}" for slot in range(2, last + 1)}
    bins = {name: [[0, 0.0, 0] for _ in EDGES[1:]] for name in names.values()}
    for slot, score, is_right in counted:
        cell = bins[names[slot]][bisect(EDGES, score, hi=len(EDGES) - 1) - 1]
        for at, value in enumerate((1, score, is_right)):
            cell[at] += value
    return {name: [[n, round(score, 3), right] for n, score, right in own] for name, own in bins.items()}


# -------------------------------------------------------------------------------------- thresholds


def row(checkpoint: Checkpoint, asked: Sequence[Asked], answered: Callable[[Asked], Run]) -> dict[str, Any]:
    """Return the counts of all answers, with the intervals of accuracy and tokens per forward."""
    counts = [counted(checkpoint, one, answered(one)) for one in asked]
    columns = {name: [count[name] for count in counts] for name in counts[0]}
    sums = {"n": len(counts)} | {name: sum(column) for name, column in columns.items()}
    accuracy = bootstrap.interval(columns["right"], [1] * len(counts))
    speed = bootstrap.interval(columns["tokens"], columns["forwards"])
    return sums | {"accuracy_interval": accuracy, "speed_interval": speed}


def counted(checkpoint: Checkpoint, one: Asked, run: Run) -> dict[str, int]:
    """Return the counts of an answer; `own` of the `accepted` slots after the first have AR's token."""
    ids = run.token_ids
    sources = [slot.source for step in run.passes for slot in step.slots[: step.accepted]]
    accepted = [at for at, source in enumerate(sources) if source == "mask"]
    own = ids if ids == one.answer else own_choices(checkpoint, one.prompt_ids, ids)
    return {
        "right": int(one.question.grade(run)),
        "unchanged": int(ids == one.answer),
        "tokens": run.tokens,
        "forwards": run.forwards,
        "accepted": len(accepted),
        "own": sum(ids[at] == own[at] for at in accepted),
    }


def measure(model: str, criteria: list[str], prompts: int, taus: list[float], output: Path) -> None:
    """Measure criteria of a model; other measurements in `output` are kept."""
    origin, checkpoint = report.provenance(), load_checkpoint(model, "cpu")
    asked = [*ask(checkpoint, prompts)]
    found = [slot for one in asked for slot in slots(checkpoint, criteria, one)]
    for at, criterion in enumerate(criteria):
        bins = binned(
            ((slot, scores[at], right) for slot, scores, right in found), checkpoint.block_size + 1
        )
        record = origin | {"machine": results.machine(checkpoint), "model": model, "criterion": criterion}
        record |= {"prompts": prompts, "edges": EDGES, "slots": bins}
        record["rows"] = [{"tau": tau} | threshold_row(checkpoint, criterion, tau, asked) for tau in taus]
        keep(output, record, ("model", "criterion"))


def threshold_row(
    checkpoint: Checkpoint, criterion: str, tau: float, asked: Sequence[Asked]
) -> dict[str, Any]:
    request = Request("mars", tau, criterion, max_new_tokens=MAX_NEW_TOKENS)
    return row(checkpoint, asked, lambda one: decode(checkpoint, one.question.prompt, request).finish())


def keep(output: Path, record: dict[str, Any], keys: Sequence[str]) -> None:
    """Write a measurement beside the others of a results file, in place of one with the same keys."""
    every = json.loads(output.read_text("utf-8"))["sweeps"] if output.exists() else []
    others = [one for one in every if any(one[key] != record[key] for key in keys)]
    report.write(output, {"sweeps": [*others, record]})


# ------------------------------------------------------------------------------------------- table


def table(file: str | Path = FILE) -> str:
    """Return the share of slots with a score of at least τ that have AR's token."""
    sweeps = sorted(results.read_results(file)["sweeps"], key=lambda one: [*SETS].index(one["model"]))
    return report.shown([_slots(sweep) for sweep in sweeps]) + sources(sweeps)


def sources(sweeps: Sequence[dict[str, Any]]) -> str:
    return "".join(dict.fromkeys(report.source(sweep, report.prompts(sweep)) for sweep in sweeps))


def shown(sweep: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in sweep["rows"] if row.get("tau") in (*SHOWN, None)]


def _slots(sweep: dict[str, Any]) -> dict[str, str]:
    measured = calibration.calibrations(sweep["model"])[sweep["criterion"]]
    shares = {name: measured.right(TAU, name) for name in measured.slots}
    parts = {name: f"{right / n:.1%} of {n}" for name, (right, n) in shares.items()}
    return {"model": f"`{sweep['model']}`", f"score ≥ {TAU}": sweep["criterion"]} | parts


def cells(sweep: dict[str, Any], row: dict[str, Any]) -> dict[str, str]:
    """Return the cells of a setting's row."""
    name = (
        f"{sweep['criterion']}, τ = {row['tau']:g}"
        if "tau" in row
        else f"{sweep['rule']}, {row['setting']}"
    )
    low, high = row["accuracy_interval"]
    slow, fast = row["speed_interval"]
    return {
        "setting": name,
        "accuracy": f"{row['right'] / row['n']:.1%} ({low:.1%}–{high:.1%})",
        "tokens per forward": f"{report.per_forward(row)} ({slow:.2f}–{fast:.2f})",
        "accepted slots that are AR's own": f"{row['own'] / row['accepted']:.1%}",
        "answers unchanged": f"{row['unchanged'] / row['n']:.1%}",
    }


if __name__ == "__main__":
    report.run()
