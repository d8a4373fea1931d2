"""Speculative decoding with a MARS model as the target: the paper's Table 6 at this project's scale.

    python -m benchmarks.speculative --output runs [--limit 4] [--rounds 3] [--save FILE]

The draft models are the first two of the four layers of `ar-tiny`, trained further like the bundled models,
once as AR and once as MARS. They stay in the output folder; if interrupted, run the same command again. The
targets are the bundled models. All methods answer the same held-out prompts and take turns prompt by
prompt, in several rounds.

A second table compares two ways to verify drafts sampled at temperature 1: the Gumbel coupling of
`decoding.sampling`, and rejection sampling, whose acceptance rate is the overlap of the two distributions.
"""

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks import tables
from benchmarks.timing import Timed, take_turns
from mars_demo import tasks
from mars_demo.decoding.acceptance import TAU
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.evaluation import results
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, is_right
from mars_demo.evaluation.paper_tables import PAPER
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint, wrap
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import BASE, TINY
from mars_demo.recipes.tiny import STAGES
from mars_demo.training.bar import train
from mars_demo.training.config import MarsConfig
from mars_demo.training.trainer import MarsTrainer

FILE = "speculative.json"
LAYERS, STEPS = 2, 150

_MARS = STAGES[TINY] | {"max_steps": STEPS}
DRAFTS = {"draft-ar": _MARS | {"objective": "ar"}, "draft-mars": _MARS}  # settings of `MarsConfig`


def truncated(checkpoint: Checkpoint, layers: int) -> Checkpoint:
    """Return a draft model with the embedding, the first `layers` layers and the head of a checkpoint.

    It shares their weights and is to be trained further.
    """
    model = checkpoint.model
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = layers
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:layers]
    smaller = type(model)(config)
    weights = model.state_dict()
    smaller.load_state_dict({name: weights[name] for name in smaller.state_dict()}, assign=True)
    smaller.tie_weights()
    name = f"{checkpoint.name}, {layers} layers"
    return wrap(name, smaller.to(model.device).eval(), checkpoint.tokenizer)


def trained(folder: Path, settings: dict) -> Checkpoint:
    if not (folder / "config.json").exists():
        base = truncated(load_checkpoint(BASE, device="cpu"), LAYERS)
        config = MarsConfig(str(folder), **settings)
        train(MarsTrainer(base.model, config, processing_class=base.tokenizer), resume=True)
    return load_checkpoint(str(folder), device="cpu")


def raced(
    examples: Sequence[tasks.Example], pairs: Sequence[tuple[Checkpoint, Request]], rounds: int
) -> list[dict]:
    """Return a result per pair of target and request."""

    def answering(target: Checkpoint, request: Request):
        return lambda example: decode(target, example.prompt, request).finish()

    methods = {str(number): answering(*pair) for number, pair in enumerate(pairs)}
    timed = take_turns(methods, examples, rounds)
    return [result(examples, target, request, one) for (target, request), one in zip(pairs, timed.values())]


def result(examples: Sequence[tasks.Example], target: Checkpoint, request: Request, timed: Timed) -> dict:
    """Return the row of a method, with the forwards of the draft counted separately."""
    passes = [step for run in timed.outputs for step in run.passes]
    draft = request.draft
    return {
        "draft": draft.objective if draft else request.mode,
        "target": target.objective,
        "tau": request.acceptance.threshold(),
        "accuracy": sum(is_right(e, run) for e, run in zip(examples, timed.outputs)) / len(examples),
        "seconds": timed.seconds,
        "tokens": sum(run.tokens for run in timed.outputs),
        "target_forwards": len(passes),
        "draft_forwards": sum(step.draft_forwards or 0 for step in passes),
        "drafts": sum(step.drafts or 0 for step in passes),
        "verified": sum(step.verified or 0 for step in passes),
    }


@torch.inference_mode()
def agreement(
    examples: Sequence[tasks.Example], target: Checkpoint, draft: Checkpoint
) -> tuple[float, float]:
    """Return the acceptance rates of drafts sampled at temperature 1, over the target's own answers.

    The first one is with Gumbel coupling, the second one with rejection sampling.
    """
    same, overlap, positions = 0, 0.0, 0
    for number, example in enumerate(examples):
        prompt = encode_prompt(target.tokenizer, example.prompt)
        greedy = Request("ar", max_new_tokens=MAX_NEW_TOKENS)
        answer = decode(target, example.prompt, greedy).finish().token_ids
        ids = torch.tensor([prompt + answer[:-1]])
        theirs, ours = (model.model(ids).logits[0, len(prompt) - 1 :].float() for model in (draft, target))
        sampling, indices = Sampling(seed=number), range(len(answer))
        same += int((sampling.choose(theirs, indices) == sampling.choose(ours, indices)).sum())
        overlap += float(torch.minimum(theirs.softmax(-1), ours.softmax(-1)).sum())
        positions += len(answer)
    return same / positions, overlap / positions


def measure(drafts: Path, limit: int, rounds: int, output: Path) -> None:
    models = {name: trained(drafts / name, settings) for name, settings in DRAFTS.items()}
    ar, mars = (load_checkpoint(name, device="cpu") for name in (BASE, TINY))
    examples = tasks.mixed(limit)
    longest = {"max_new_tokens": MAX_NEW_TOKENS}

    def drafted(name: str, tau: float) -> Request:
        return Request("speculative", tau, draft=models[name], **longest)

    pairs = [
        (ar, Request("ar", **longest)),
        (ar, drafted("draft-ar", 1.0)),
        (mars, drafted("draft-ar", 1.0)),
        (mars, drafted("draft-mars", 1.0)),
        (mars, drafted("draft-ar", TAU)),
        (mars, drafted("draft-mars", TAU)),
        (mars, Request("mars", TAU, **longest)),
        (mars, Request("lossless", **longest)),
    ]
    verified = []
    for name, target in (("draft-ar", ar), ("draft-mars", mars)):
        coupled, rejection = agreement(examples, target, models[name])
        verified.append({"draft": name, "target": target.name, "common": coupled, "rejection": rejection})
    record = {"prompts": len(examples), "rows": raced(examples, pairs, rounds), "drawn": verified}
    results.write(output, results.machine(mars), record)


def table(file: str | Path = FILE) -> str:
    measured = results.read(file)
    base = measured["rows"][0]["seconds"]
    rows = [
        {
            "draft": row["draft"],
            "target": row["target"],
            "τ": None if row["tau"] is None else f"{row['tau']:g}",
            "accuracy": f"{row['accuracy']:.1%}",
            "tokens per target forward": f"{row['tokens'] / row['target_forwards']:.2f}",
            "drafts accepted": f"{row['verified'] / row['drafts']:.0%}" if row["drafts"] else None,
            "forwards of the draft": row["draft_forwards"] or "–",
            "faster than ar": tables.faster(row["seconds"], base),
        }
        for row in measured["rows"]
    ]
    verified = [
        {
            "draft": row["draft"],
            "target": row["target"],
            "Gumbel coupling": f"{row['common']:.1%}",
            "rejection sampling": f"{row['rejection']:.1%}",
        }
        for row in measured["drawn"]
    ]
    return (
        f"{tables.shown(rows)}\n\n{_masks_after_drafts(measured['rows'])}\n\n"
        "The share of drafts accepted at temperature 1, with Gumbel coupling and with rejection "
        "sampling:\n\n"
        + tables.shown(verified)
        + tables.source(measured, tables.prompts(measured), tables.rounds(measured))
    )


def _masks_after_drafts(rows: Sequence[dict]) -> str:
    """Return a sentence on the gain of masks in speculative decoding, here and in the paper."""

    def rate(tau: float) -> float:
        pair = ("ar", "mars", tau)
        row = next(
            r for r in rows if (r["draft"], r["target"], r["tau"]) == pair and r["draft_forwards"]
        )  # fmt: skip
        return row["tokens"] / row["target_forwards"]

    theirs = [row["tokens_per_target_forward"] for row in PAPER["table6_speculative"][:2]]
    return (
        f"The masks after the drafts add {rate(0.95) - rate(1.0):.2f} tokens to a forward of the target "
        f"here ({rate(1.0):.2f} to {rate(0.95):.2f}), and {theirs[1] - theirs[0]:.2f} in the paper "
        f"({theirs[0]:.2f} to {theirs[1]:.2f}), where text is harder to guess."
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", dest="drafts", type=Path, required=True, help="a folder")
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", dest="output", type=Path, default=results.FOLDER / FILE)
    arguments = parser.parse_args()
    measure(**vars(arguments))
    print(table(arguments.output.resolve()))


if __name__ == "__main__":
    main()
