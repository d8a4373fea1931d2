"""The chat model against its base: quality and speed on held-out prompts and verifiable instructions.

    python -m benchmarks.chat --base DIR/base --held-out DIR/held-out.jsonl [--model mars-smollm2-135m]
        [--limit 600] [--every 1] [--size 16] [--taus 0.95 0.8] [--output FILE]

The base (a GGUF file, folder or hub id) decodes greedily, the model as AR, at each τ and losslessly, in
batches of `--size`. They answer at most `--limit` held-out prompts and, with `--every N`, every Nth
verifiable instruction.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch

from benchmarks import report
from mars_demo.core.layout import causal
from mars_demo.core.trace import Run
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Setting
from mars_demo.evaluation.sweep import points
from mars_demo.evaluation.task_sets import INSTRUCTIONS, MOST, Question, questions
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine
from mars_demo.recipes import distillation
from mars_demo.serving.decode_batch import decode_batch

FILE = "chat.json"
OPTIONS = {"model": "mars-smollm2-135m", "base": str, "held_out": str, "limit": 600, "every": 1}
OPTIONS |= {"size": 16, "taus": [0.95, 0.8]}
MAX_NEW_TOKENS = 192
LOSSLESS = Setting("lossless")
COMPARED = 64  # tokens of an answer; after the first difference, two answers have little in common


@torch.inference_mode()
def agreement(checkpoint: Checkpoint, prompts: Sequence[str], runs: Sequence[Run]) -> float:
    """Return the next-token agreement of `checkpoint` with the base, whose answers are `runs`.

    It is the share of their first `COMPARED` tokens that are also the most probable ones for `checkpoint`,
    given the same tokens before them.
    """
    same = []
    for prompt, run in zip(prompts, runs):
        ids, prompt_ids = run.token_ids[:COMPARED], encode_prompt(checkpoint.tokenizer, prompt)
        layout = causal([*prompt_ids, *ids[:-1]])
        logits = Engine(checkpoint.decoder).forward(layout, first=len(prompt_ids) - 1)
        same.append(logits.argmax(-1).cpu() == torch.tensor(ids))
    return torch.cat(same).float().mean().item()


def rows(
    model: Checkpoint,
    base: Checkpoint,
    prompts: list[str],
    verifiable: list[Question],
    taus: list[float],
    size: int,
) -> Iterator[dict]:
    """Yield a row per way to decode; `checks` is the share of instructions followed."""
    held_out = [Question(prompt, lambda run: None) for prompt in prompts]
    answers = decode_batch(base, prompts, AR.request(MAX_NEW_TOKENS), size=size).finish().runs
    ways = {Setting("mars", "probability", tau): f"τ = {tau:g}" for tau in taus}
    for checkpoint, names in ((base, {AR: "base"}), (model, {AR: "AR", **ways, LOSSLESS: "lossless"})):
        requests = {setting: setting.request(MAX_NEW_TOKENS) for setting in names}
        *_, (free, _) = points(checkpoint, held_out, requests, size)
        requests.pop(LOSSLESS, None)  # it gives the answers of AR
        *_, (checked, _) = points(checkpoint, verifiable, requests, size)
        checks = {point.setting: point.accuracy for point in checked}
        for point in free:
            yield {
                "method": names[point.setting],
                "prompts": point.n,
                "checks": checks.get(point.setting),
                "agreement": agreement(checkpoint, prompts, answers) if point.setting == AR else None,
                "tokens_per_forward": point.tokens_per_forward,
                "equal": point.n - len(point.different),
            }


def measure(
    model: str, base: str, held_out: str, limit: int, every: int, size: int, taus: list[float], output: Path
) -> None:  # fmt: skip
    tuned, plain = (load_checkpoint(name, dtype=torch.float32) for name in (model, base))
    prompts = list(islice(distillation.prompts_from(held_out), limit))
    verifiable = questions(INSTRUCTIONS, MOST)[::every]
    record = {"prompts": len(prompts), "instructions": len(verifiable)}
    record["rows"] = list(rows(tuned, plain, prompts, verifiable, taus, size))
    report.save(output, results.machine(tuned), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read_results(file)
    share = "{:.1%}".format
    shown = [
        {
            "answers": row["method"],
            "tokens per forward": f"{row['tokens_per_forward']:.2f}",
            "verifiable instructions followed": row["checks"] and share(row["checks"]),
            "next-token agreement with the base": row["agreement"] and share(row["agreement"]),
            "answers equal to AR": None
            if row["method"] == "base"
            else f"{row['equal']} of {row['prompts']}",
        }
        for row in measured["rows"]
    ]
    size = f"{measured['prompts']} held-out prompts, {measured['instructions']} verifiable instructions"
    return report.shown(shown) + report.source(measured, size)


if __name__ == "__main__":
    report.run()
