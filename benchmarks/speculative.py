"""Speculative decoding with a MARS model as the target: the paper's Table 6 at this project's scale.

    python -m benchmarks.speculative --output runs [--limit 4] [--rounds 3] [--save FILE]

The drafts are the first two of the four layers of `ar-tiny`, trained on as the bundled models are, once for
one token per forward and once for MARS; they stay in the output folder, and a cut training goes on. Targets
are the bundled models. All methods answer the same held-out prompts and take turns prompt by prompt, in
several rounds.

The last lines compare the two ways to verify a draft that was drawn at temperature 1: the common noise of
`mars_demo.sampling`, and rejection sampling, which holds with the overlap of the two distributions.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from tqdm import tqdm

from benchmarks.turns import Timed, take_turns
from mars_demo import checkpoints, results, tasks
from mars_demo.chat import encode_prompt
from mars_demo.checkpoints import Checkpoint
from mars_demo.decoding import decode
from mars_demo.evaluation import MAX_NEW_TOKENS, is_right
from mars_demo.sampling import Sampling
from mars_demo.tiny import STAGES
from mars_demo.training import Recipe, train

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
        base = checkpoints.truncated(checkpoints.load("ar-tiny", device="cpu"), LAYERS)
        with tqdm(total=recipe.steps, desc=folder.name, mininterval=5) as bar:
            for metrics in train(base.model, base.tokenizer, recipe, folder, resume=True):
                bar.update(metrics.step - bar.n)
    return checkpoints.load(str(folder), device="cpu")


def measure(
    examples: Sequence[tasks.Example], pairs: Sequence[tuple[Checkpoint, dict]], rounds: int
) -> list[Result]:
    """A result per target with its settings."""

    def answering(target: Checkpoint, settings: dict):
        return lambda e: decode(target, e.prompt, max_new_tokens=MAX_NEW_TOKENS, **settings).finish()

    methods = {str(number): answering(*pair) for number, pair in enumerate(pairs)}
    timed = take_turns(methods, examples, rounds)
    return [
        result(examples, target, settings, one) for (target, settings), one in zip(pairs, timed.values())
    ]


def result(examples: Sequence[tasks.Example], target: Checkpoint, settings: dict, timed: Timed) -> Result:
    passes = [step for run in timed.found for step in run.passes]
    draft = settings.get("draft")
    return Result(
        draft=draft.objective if draft else settings["mode"],
        target=target.objective,
        tau=settings.get("tau"),
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
        answer = decode(target, example.prompt, mode="ar", max_new_tokens=MAX_NEW_TOKENS).finish().token_ids
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
    ar, mars = (checkpoints.load(name, device="cpu") for name in ("ar-tiny", "mars-tiny"))
    examples = tasks.mixed(arguments.limit)
    by_draft = {"mode": "speculative", "draft": drafts["draft-ar"]}
    by_mars = {"mode": "speculative", "draft": drafts["draft-mars"]}
    pairs = [
        (ar, {"mode": "ar"}),
        (ar, by_draft | {"tau": 1.0}),
        (mars, by_draft | {"tau": 1.0}),
        (mars, by_mars | {"tau": 1.0}),
        (mars, by_draft | {"tau": TAU}),
        (mars, by_mars | {"tau": TAU}),
        (mars, {"mode": "mars", "tau": TAU}),
        (mars, {"mode": "lossless"}),
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
