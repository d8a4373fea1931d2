"""Answers of a given shape: accuracy, tokens per forward and time with a grammar and without.

    python -m benchmarks.grammar [--prompts 200] [--choices 60]

The prompts are held-out ones of skills whose answers are JSON, as many of each, and questions about a text,
whose choices are its details. The JSON schema of a prompt has the names and the types of its fields.
"""

import json
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

import torch

from benchmarks import report
from benchmarks.timing import take_turns
from mars_demo import tasks
from mars_demo.core.acceptance import TAU
from mars_demo.core.grammar import Grammar
from mars_demo.core.names import CHAT
from mars_demo.core.trace import Run
from mars_demo.decoding.decode import decode
from mars_demo.decoding.matcher import Matcher
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import is_right
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint

FILE = "grammar.json"
OPTIONS = {"model": CHAT, "prompts": 200, "choices": 60}
JSON_SKILLS, CHOICE_SKILL = ("extraction", "rows", "table-formats"), "answering"
MAX_NEW_TOKENS = 256
KINDS = {"json": "JSON", "choice": "choices"}
AR = "AR"
METHODS = {AR: ("ar", None), f"MARS, τ = {TAU}": ("mars", TAU), "lossless": ("lossless", None)}


class Question(NamedTuple):
    """A held-out prompt with the grammar of its answer."""

    example: tasks.Example
    grammar: Grammar


def questions(json_prompts: int, choices: int) -> list[Question]:
    """Return held-out prompts: of each skill with JSON answers, and of the skill with choices."""
    chosen = []
    for name in JSON_SKILLS:
        found = [Question(e, g) for e in tasks.held_out(name, 4 * json_prompts) if (g := schema(e.answer))]
        chosen += found[: -(-json_prompts // len(JSON_SKILLS))]
    examples = tasks.held_out(CHOICE_SKILL, choices)
    return chosen[:json_prompts] + [Question(e, Grammar("choice", listed(e))) for e in examples]


def listed(example: tasks.Example) -> str:
    """Return the details of a text, one per line, in an order that does not tell the right one."""
    return "\n".join(sorted({example.answer, *(other["value"] for other in example.facts["others"])}))


def schema(answer: str) -> Grammar | None:
    """Return the JSON schema of an answer; None if it is not JSON."""
    try:
        value = json.loads(answer)
    except ValueError:
        return None
    return Grammar("json", json.dumps(_schema(value))) if isinstance(value, dict | list) else None


def _schema(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        fields = {name: _schema(part) for name, part in value.items()}
        return {
            "type": "object",
            "properties": fields,
            "required": [*fields],
            "additionalProperties": False,
        }
    if isinstance(value, list):
        return {"type": "array", "items": _schema(value[0]), "minItems": 1}
    names = {bool: "boolean", int: "integer", float: "number"}
    return {"type": names.get(type(value), "string")}


def answered(checkpoint: Checkpoint, mode: str, tau: float | None, shaped: bool, question: Question) -> Run:
    grammar = question.grammar if shaped else None
    taus = {} if tau is None else {"tau": tau}
    request = Request(mode, max_new_tokens=MAX_NEW_TOKENS, grammar=grammar, adaptive=True, **taus)
    return decode(checkpoint, question.example.prompt, request).finish()


def counted(question: Question, run: Run) -> dict[str, Any]:
    """Return the counts of an answer, and whether it has the shape and is right."""
    return {
        "kind": question.grammar.kind,
        "ids": run.token_ids,
        "forwards": run.forwards,
        "forced": run.sources["forced"],
        "seconds": run.seconds,
        "right": is_right(question.example, run),
        "valid": has_shape(question.grammar, run.text),
        "cut": run.stop == "length",
    }


def has_shape(grammar: Grammar, text: str) -> bool:
    """Return whether a text is JSON, or one of the choices."""
    if grammar.kind == "choice":
        return text.strip() in grammar.text.splitlines()
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def matcher_ms(checkpoint: Checkpoint, question: Question, ids: Sequence[int]) -> list[float]:
    """Return the milliseconds that the grammar takes for each token of an answer."""
    matcher, times = Matcher(checkpoint, question.grammar), []
    logits = torch.zeros(checkpoint.model.config.vocab_size)
    for token in ids:
        started = time.perf_counter()
        if not matcher.forced:
            matcher.mask(logits)
        matcher.advance(token)
        times.append(1000 * (time.perf_counter() - started))
    return times


def measure(model: str, prompts: int, choices: int, output: Path) -> None:
    checkpoint = measured(load_checkpoint(model, "cpu"))
    asked = questions(prompts, choices)
    methods = {
        f"{name}{', with the shape' if shaped else ''}": partial(answered, checkpoint, *method, shaped)
        for name, method in METHODS.items()
        for shaped in (False, True)
    }
    timed = take_turns(methods, asked, 1, counted)
    base = [answer["ids"] for answer in timed[f"{AR}, with the shape"].outputs]
    rows = [row(name, kind, timing.outputs, base) for kind in KINDS for name, timing in timed.items()]
    times = [ms for question, ids in zip(asked, base) for ms in matcher_ms(checkpoint, question, ids)]
    record = {"model": model, "prompts": len(asked), "max_new_tokens": MAX_NEW_TOKENS}
    record |= {"forward_ms": checkpoint.costs[0][1], "matcher_ms": matcher_quantiles(times), "rows": rows}
    report.save(output, results.machine(checkpoint), record)


def matcher_quantiles(times: Sequence[float]) -> dict[str, float]:
    return {"median": round(median(times), 4), "p95": round(quantiles(times, n=20)[-1], 4)}


def row(name: str, kind: str, answers: Sequence[dict], base: Sequence[list[int]]) -> dict[str, Any]:
    """Return the sums over the answers of a kind; `equal` counts those of AR with the shape."""
    of_kind = [(answer, ids) for answer, ids in zip(answers, base) if answer["kind"] == kind]
    sums = {key: sum(answer[key] for answer, _ in of_kind) for key in ("forwards", "forced", "seconds")}
    sums |= {key: sum(answer[key] for answer, _ in of_kind) for key in ("right", "valid", "cut")}
    return {
        "method": name,
        "kind": kind,
        "n": len(of_kind),
        "tokens": sum(len(answer["ids"]) for answer, _ in of_kind),
        "equal": sum(answer["ids"] == ids for answer, ids in of_kind),
        **sums,
    }


# ------------------------------------------------------------------------------------------- table


def cells(measured: dict[str, Any]) -> list[dict[str, Any]]:
    base = {row["kind"]: row["seconds"] for row in measured["rows"] if row["method"] == AR}
    return [
        {
            "answers": KINDS[row["kind"]],
            "method": row["method"],
            "right": f"{row['right'] / row['n']:.1%}",
            "with the shape": f"{row['valid']} of {row['n']}",
            "tokens per forward": report.per_forward(row),
            "of these forced": f"{row['forced'] / row['forwards']:.2f}",
            "as fast as AR without it": f"{base[row['kind']] / row['seconds']:.2f}×",
        }
        for row in measured["rows"]
    ]


def table(file: str | Path = FILE) -> str:
    """Return a row per method; its cells are of JSON answers, then of choices."""
    measured = results.read_results(file)
    share = measured["matcher_ms"]["p95"] / measured["forward_ms"]
    matcher = f"the grammar takes at most {share:.1%} of a forward for 95% of tokens"
    by_method: dict[str, list[dict]] = {}
    for cell in cells(measured):
        by_method.setdefault(cell.pop("method"), []).append(cell)
    kinds = ", ".join(KINDS.values())
    rows = [
        {kinds: method}
        | {name: ", ".join(cell[name] for cell in both) for name in both[0] if name != "answers"}
        for method, both in by_method.items()
    ]
    return report.shown(rows) + report.source(measured, report.prompts(measured), matcher)


if __name__ == "__main__":
    report.run()
