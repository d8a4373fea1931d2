"""Speculative decoding with a MARS model as the target: the paper's Table 6 at this project's scale.

    python -m benchmarks.speculative --output runs [--limit 4] [--rounds 3] [--save FILE]

The draft models are the first two of the four layers of `ar-tiny`, trained further as the bundled models
are, once for one token per forward and once for MARS. They stay in the output folder; if interrupted, run
the same command again. Targets are the bundled models. All methods answer the same held-out prompts and
take turns prompt by prompt, in several rounds.

The last lines compare the two ways to verify a draft that was drawn at temperature 1: the common noise of
`decoding.sampling`, and rejection sampling, which accepts with the overlap of the two distributions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch

from benchmarks.turns import Timed, take_turns
from mars_demo import tasks
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.evaluation import results
from mars_demo.evaluation.accuracy import MAX_NEW_TOKENS, is_right
from mars_demo.models.chat import encode_prompt
from mars_demo.models.checkpoint import Checkpoint, truncated
from mars_demo.models.load import load_checkpoint
from mars_demo.progress import training_bar
from mars_demo.recipes.tiny import STAGES
from mars_demo.training.loop import train
from mars_demo.training.recipe import Recipe

LAYERS, STEPS = 2, 150
TAU = 0.95
_MARS = replace(STAGES["mars-tiny"], steps=STEPS)
DRAFTS = {"draft-ar": replace(_MARS, objective="ar"), "draft-mars": _MARS}


@dataclass(frozen=True)
class Result:
    """Held-out prompts answered by one pair of models. Forwards of the draft are counted separately;
    `seconds` has a value per round."""

    draft: str
    target: str
    tau: float | None
    accuracy: float
    seconds: list[float]
    tokens: int
    target_forwards: int
    draft_forwards: int
    drafts: int
    verified: int


def trained(folder: Path, recipe: Recipe) -> Checkpoint:
    if not (folder / "config.json").exists():
        base = truncated(load_checkpoint("ar-tiny", device="cpu"), LAYERS)
        steps = train(base.model, base.tokenizer, recipe, folder, resume=True)
        for _ in training_bar(steps, recipe.steps, folder.name):
            pass
    return load_checkpoint(str(folder), device="cpu")


def measure(
    examples: Sequence[tasks.Example], pairs: Sequence[tuple[Checkpoint, Request]], rounds: int
) -> list[Result]:
    """A result per target with what is requested of it."""

    def answering(target: Checkpoint, request: Request):
        return lambda example: decode(target, example.prompt, request).finish()

    methods = {str(number): answering(*pair) for number, pair in enumerate(pairs)}
    timed = take_turns(methods, examples, rounds)
    return [result(examples, target, request, one) for (target, request), one in zip(pairs, timed.values())]


def result(examples: Sequence[tasks.Example], target: Checkpoint, request: Request, timed: Timed) -> Result:
    passes = [step for run in timed.found for step in run.passes]
    draft = request.draft
    return Result(
        draft=draft.objective if draft else request.mode,
        target=target.objective,
        tau=request.acceptance.threshold(),
        accuracy=sum(is_right(e, run) for e, run in zip(examples, timed.found)) / len(examples),
        seconds=timed.seconds,
        tokens=sum(run.tokens for run in timed.found),
        target_forwards=len(passes),
        draft_forwards=sum(step.draft_forwards or 0 for step in passes),
        drafts=sum(step.drafts or 0 for step in passes),
        verified=sum(step.verified or 0 for step in passes),
    )


@torch.inference_mode()
def agreement(
    examples: Sequence[tasks.Example], target: Checkpoint, draft: Checkpoint
) -> tuple[float, float]:
    """Over the places of the target's own answers, the shares of drafts drawn at temperature 1 that hold
    with common noise and with rejection sampling."""
    same, overlap, places = 0, 0.0, 0
    for number, example in enumerate(examples):
        prompt = encode_prompt(target.tokenizer, example.prompt)
        greedy = Request("ar", max_new_tokens=MAX_NEW_TOKENS)
        answer = decode(target, example.prompt, greedy).finish().token_ids
        ids = torch.tensor([prompt + answer[:-1]])
        theirs, ours = (model.model(ids).logits[0, len(prompt) - 1 :].float() for model in (draft, target))
        sampling, at = Sampling(seed=number), range(len(answer))
        same += int((sampling.choose(theirs, at) == sampling.choose(ours, at)).sum())
        overlap += float(torch.minimum(theirs.softmax(-1), ours.softmax(-1)).sum())
        places += len(answer)
    return same / places, overlap / places


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    arguments = parser.parse_args()
    drafts = {name: trained(arguments.output / name, recipe) for name, recipe in DRAFTS.items()}
    ar, mars = (load_checkpoint(name, device="cpu") for name in ("ar-tiny", "mars-tiny"))
    examples = tasks.mixed(arguments.limit)
    limit = {"max_new_tokens": MAX_NEW_TOKENS}

    def drafted(name: str, tau: float) -> Request:
        return Request("speculative", tau, draft=drafts[name], **limit)

    pairs = [
        (ar, Request("ar", **limit)),
        (ar, drafted("draft-ar", 1.0)),
        (mars, drafted("draft-ar", 1.0)),
        (mars, drafted("draft-mars", 1.0)),
        (mars, drafted("draft-ar", TAU)),
        (mars, drafted("draft-mars", TAU)),
        (mars, Request("mars", TAU, **limit)),
        (mars, Request("lossless", **limit)),
    ]
    machine = results.machine(mars)
    found = measure(examples, pairs, arguments.rounds)
    print(f"{machine}, {len(examples)} prompts, {arguments.rounds} rounds\n")
    print("| drafted by | target | τ | right | tokens per target forward | drafts accepted ", end="")
    print("| forwards of the draft | faster than ar |\n|---|---|---|---|---|---|---|---|")
    for r in found:
        share = f"{r.verified / r.drafts:.0%}" if r.drafts else ""
        print(
            f"| {r.draft} | {r.target} | {'' if r.tau is None else f'{r.tau:g}'} | {r.accuracy:.1%} "
            f"| {r.tokens / r.target_forwards:.2f} | {share} | {r.draft_forwards or ''} "
            f"| {results.ranged(results.ratios(r.seconds, found[0].seconds))}× |",
            flush=True,
        )
    print("\n| drafted by | verified by | common noise | rejection sampling |\n|---|---|---|---|")
    drawn = []
    for name, target in (("draft-ar", ar), ("draft-mars", mars)):
        common, rejection = agreement(examples, target, drafts[name])
        print(f"| {name} | {target.name} | {common:.1%} | {rejection:.1%} |")
        drawn.append({"draft": name, "target": target.name, "common": common, "rejection": rejection})
    if arguments.save:
        record = {"prompts": len(examples), "rows": [asdict(r) for r in found], "drawn": drawn}
        results.write(arguments.save, machine, record)


if __name__ == "__main__":
    main()
