"""The speed-up of prompt lookup where answers repeat their prompts: rewriting, editing code, quoting.

    python -m benchmarks.copying [--model mars-smollm2-135m] [--prompts 12] [--rounds 3]
        [--max-new-tokens 160] [--dtype auto] [--output FILE]

The methods are `ar` and `lossless`, without prompt lookup, with it, and with a window that follows the
costs of forwards. They take turns prompt by prompt. Answers equal to those of `ar` are counted, not graded.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks import tables
from benchmarks.timing import Timed, take_turns
from mars_demo.decoding.decode import decode
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.evaluation import results
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import DTYPE

FILE = "copying.json"
PROMPTS = Path(__file__).with_suffix(".json")  # the kinds of tasks in turn, so that few prompts cover all


def methods(limit: int) -> dict[str, Request]:
    return {
        "ar": Request("ar", max_new_tokens=limit),
        "lossless, no prompt lookup": Request("lossless", ngram_tokens=0, max_new_tokens=limit),
        "lossless": Request("lossless", max_new_tokens=limit),
        "lossless, adaptive": Request("lossless", max_new_tokens=limit, adaptive=True),
    }


def measure(model: str, prompts: int, rounds: int, max_new_tokens: int, dtype: str, output: Path) -> None:
    checkpoint = measured(load_checkpoint(model, dtype=dtype))
    repetitive = [task["prompt"] for task in json.loads(PROMPTS.read_text("utf-8"))][:prompts]

    def answering(request: Request):
        return lambda prompt: decode(checkpoint, prompt, request).finish()

    chosen = methods(max_new_tokens)
    timed = take_turns({name: answering(request) for name, request in chosen.items()}, repetitive, rounds)
    record = {
        "prompts": len(repetitive),
        "max_new_tokens": max_new_tokens,
        "rows": [row(name, one, timed["ar"].outputs) for name, one in timed.items()],
    }
    results.write(output, results.machine(checkpoint), record)


def row(method: str, timed: Timed, alone: Sequence[Run]) -> dict:
    """Return the results of a method; `equal` counts the answers equal to those of `ar`."""
    runs = timed.outputs
    return {
        "method": method,
        "tokens": sum(run.tokens for run in runs),
        "forwards": sum(run.forwards for run in runs),
        "sources": dict(sum((run.sources for run in runs), Counter())),
        "equal": sum(run.token_ids == ar.token_ids for run, ar in zip(runs, alone)),
        "seconds": timed.seconds,
    }


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "method": one["method"],
            "tokens per forward": tables.per_forward(one),
            "from prompt lookup": f"{one['sources'].get('copy', 0) / one['tokens']:.0%}",
            "answers equal to ar": f"{one['equal']} of {measured['prompts']}",
            "faster than ar": tables.faster(one["seconds"], base),
        }
        for one in measured["rows"]
    ]
    size = f"{measured['prompts']} prompts, at most {measured['max_new_tokens']} tokens each"
    return tables.shown(rows) + tables.source(measured, size, tables.rounds(measured))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=160)
    parser.add_argument("--dtype", **DTYPE)
    tables.run(parser, measure, table, FILE)


if __name__ == "__main__":
    main()
