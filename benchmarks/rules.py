"""Rules of acceptance on the same weights: accuracy against tokens per forward.

    python -m benchmarks.rules [--rules FLy] [--prompts 136]

The criteria are those of `benchmarks.calibration`. Their rivals, greedy as well:

- **entropy, position penalty**, WeDLM (arXiv 2512.22737): entropy + λ · (slot - 1) ≤ H; here from the left.
- **ensemble**, transformers' `assistant_ensemble_weight` (arXiv 2604.07622): the verifier's choice is the
  most probable token of w · its distribution + (1 - w) · the draft's, over the five best of both.
- **FLy**, as in vLLM (arXiv 2511.22972): a draft may differ from the verifier's choice if the entropy of
  the verifier's three best tokens is at least H nats and the next W drafts equal its choices.

The last two relax lossless decoding with a group of masks after each draft and without n-grams.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import exp, log
from pathlib import Path

from benchmarks import calibration, report
from benchmarks.calibration import Asked
from mars_demo.core.names import CHAT
from mars_demo.core.trace import Run
from mars_demo.decoding.answer import Strategy
from mars_demo.decoding.decode import drive, prepare
from mars_demo.decoding.reading import Reading
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine

FILE = "rules.json"
VERIFYING = Request("lossless", linear=False, ngram_tokens=0, max_new_tokens=MAX_NEW_TOKENS)
Readings = Sequence[Reading]
Rule = Callable[[Readings, Readings], Readings]  # a forward's readings and the drafts that it verifies


def answered(checkpoint: Checkpoint, one: Asked, request: Request, rule: Rule) -> Run:
    """Answer with the readings of every forward as a rule changes them."""
    request, engine = request.fitted(checkpoint), Engine(checkpoint.decoder)
    settings, answer, strategy = prepare(checkpoint, one.question.prompt, request, engine)
    return Run(settings, drive(engine, answer, _changed(strategy, rule), request)).finish()


def _changed(strategy: Strategy, rule: Rule) -> Strategy:
    drafts: Readings = ()
    for forward in strategy:
        readings = yield forward
        outcome = strategy.send(rule(readings, drafts))
        drafts = outcome.rest
        yield outcome


# ------------------------------------------------------------------------------------------- rules


def penalized(weight: float, readings: Readings, _: Readings) -> Readings:
    """Lower the scores of a window by their distance, those of entropy as if it were higher."""
    return [replace(one, score=one.score * exp(-weight * at)) for at, one in enumerate(readings)]


def ensemble(weight: float, readings: Readings, drafts: Readings) -> Readings:
    """Choose the most probable tokens of a mixture with the drafts' distributions."""

    def chosen(reading: Reading, draft: Reading) -> Reading:
        p, q = (dict(zip(one.candidates, one.probabilities)) for one in (reading, draft))
        token = max({**p, **q}, key=lambda token: weight * p.get(token, 0) + (1 - weight) * q.get(token, 0))
        return replace(reading, token=token)

    return [*map(chosen, readings, drafts), *readings[len(drafts) :]]


def fly(entropy: float, ahead: int, readings: Readings, drafts: Readings) -> Readings:
    """Choose drafts where the verifier is uncertain and the next drafts are its choices."""
    choices = [*readings]
    agrees = [draft.token == own.token for draft, own in zip(drafts, readings)]
    for at, draft in enumerate(drafts):
        following = agrees[at + 1 : at + 1 + ahead]
        uncertain = -sum(p * log(p) for p in readings[at].probabilities[:3] if p) >= entropy
        if uncertain and len(following) == ahead and all(following):
            choices[at] = replace(readings[at], token=draft.token)
    return choices


def entropy(most: float) -> Request:
    return Request("mars", exp(-most), "entropy", max_new_tokens=MAX_NEW_TOKENS)


# The first settings of WeDLM and FLy are their authors'. An ensemble of weight 1 is lossless decoding.
RULES = {
    "entropy, position penalty": {
        "H = 0.4, λ = 0.02": (entropy(0.4), partial(penalized, 0.02)),
        "H = 0.2, λ = 0.1": (entropy(0.2), partial(penalized, 0.1)),
    },
    "ensemble": {f"w = {w}": (VERIFYING, partial(ensemble, w)) for w in (1, 0.5, 0.3)},
    "FLy": {f"H = 0.3, W = {ahead}": (VERIFYING, partial(fly, 0.3, ahead)) for ahead in (6, 1)},
}
OPTIONS = {"rules": [*RULES], "prompts": 136}


def measure(rules: list[str], prompts: int, output: Path) -> None:
    """Measure all settings of some rules; other rules in `output` are kept."""
    origin, checkpoint = report.provenance(), load_checkpoint(CHAT, "cpu")
    asked = [*calibration.ask(checkpoint, prompts)]
    for rule in rules:
        record = origin | {"machine": results.machine(checkpoint), "model": CHAT, "rule": rule}
        record |= {"prompts": prompts, "rows": []}
        for setting, (request, change) in RULES[rule].items():
            changed = partial(answered, checkpoint, request=request, rule=change)
            record["rows"].append({"setting": setting} | calibration.row(checkpoint, asked, changed))
        calibration.keep(output, record, ("rule",))


def table(file: str | Path = FILE) -> str:
    """Return a row per setting of the chat model: those of the rules here and of all criteria."""
    criteria = [one for one in results.read_results(calibration.FILE)["sweeps"] if one["model"] == CHAT]
    rules = results.read_results(file)["sweeps"]
    rows = [calibration.cells(one, row) for one in (*criteria, *rules) for row in calibration.shown(one)]
    return report.shown(rows) + calibration.sources(rules)


if __name__ == "__main__":
    report.run()
