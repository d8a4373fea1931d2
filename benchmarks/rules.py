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
from mars_demo.core import layout as layouts
from mars_demo.core.names import CHAT
from mars_demo.core.trace import Run
from mars_demo.decoding.answer import Strategy
from mars_demo.decoding.decode import drive, prepare
from mars_demo.decoding.reading import Reader, Reading, count_verified, marked
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.task_sets import MAX_NEW_TOKENS
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.runtime.engine import Engine

FILE = "rules.json"
Readings = Sequence[Reading]
Rule = Callable[[Readings, Readings], list[Reading]]  # the verifier's readings and the drafts → choices


# ------------------------------------------------------------------------------- rules of a window


def penalized(checkpoint: Checkpoint, one: Asked, entropy: float, weight: float) -> Run:
    """Answer as MARS does, but with a penalty on the entropy of each further slot."""
    request = Request("mars", exp(-entropy), "entropy", max_new_tokens=MAX_NEW_TOKENS).fitted(checkpoint)
    engine = Engine(checkpoint.decoder)
    settings, answer, strategy = prepare(checkpoint, one.question.prompt, request, engine)
    return Run(settings, drive(engine, answer, _penalized(strategy, weight), request)).finish()


def _penalized(strategy: Strategy, weight: float) -> Strategy:
    for forward in strategy:
        readings = yield forward
        yield strategy.send(
            [replace(r, score=r.score * exp(-weight * at)) for at, r in enumerate(readings)]
        )


# ------------------------------------------------------------------------- rules of verification


def verified(checkpoint: Checkpoint, one: Asked, rule: Rule) -> Run:
    """Answer by self-verification under a rule.

    Two forwards compute what the grouped layout of `lossless` computes in one, without the groups that are
    not used; they count as one.
    """
    request = Request("lossless", max_new_tokens=MAX_NEW_TOKENS, ngram_tokens=0).fitted(checkpoint)
    engine, read, drafts = Engine(checkpoint.decoder), Reader(request.acceptance), []
    settings, answer, _ = prepare(checkpoint, one.question.prompt, request, engine)
    run = Run(settings)
    while not answer.stop:
        new, guesses = answer.begin(), [draft.token for draft in drafts]
        layout = layouts.causal(new, answer.cached, guesses)
        chosen = rule(read.read(engine.forward(layout, len(new) - 1), ()), drafts)
        count = count_verified(guesses, chosen)
        engine.commit(len(new) + count)
        answer.cached = engine.length
        accepted = [*marked(chosen[:count], "mask"), chosen[count]]
        run.add(answer.step(accepted, count + 1, 0, positions=layout.ids.shape[1]).step)
        masks = min(request.window, answer.room) - 1
        # The next slot is the verifier's choice, which these masks do not see.
        after = layouts.window([], max(0, masks), checkpoint.mask_id, engine.length)
        drafts = read.read(engine.forward(after), ()) if masks > 0 and not answer.stop else []
        engine.commit(0)
    return run


def ensemble(weight: float, own: Readings, drafts: Readings) -> list[Reading]:
    """Return the most probable tokens of a mixture with the drafts' distributions."""

    def chosen(reading: Reading, draft: Reading) -> Reading:
        p, q = (dict(zip(one.candidates, one.probabilities)) for one in (reading, draft))
        token = max({**p, **q}, key=lambda token: weight * p.get(token, 0) + (1 - weight) * q.get(token, 0))
        return replace(reading, token=token)

    return [*map(chosen, own, drafts), own[-1]]


def fly(entropy: float, ahead: int, own: Readings, drafts: Readings) -> list[Reading]:
    """Return the verifier's choices, but drafts where it is uncertain and the next ones are its choices."""
    agrees, choices = [draft.token == reading.token for draft, reading in zip(drafts, own)], [*own]
    for at, draft in enumerate(drafts):
        following = agrees[at + 1 : at + 1 + ahead]
        uncertain = -sum(p * log(p) for p in own[at].probabilities[:3] if p) >= entropy
        if uncertain and len(following) == ahead and all(following):
            choices[at] = replace(own[at], token=draft.token)
    return choices


# The first settings of WeDLM and FLy are their authors'. Ensembles of weight 1 are lossless decoding.
RULES: dict[str, dict[str, Callable[[Checkpoint, Asked], Run]]] = {
    "entropy, position penalty": {
        f"H = {h}, λ = {weight}": partial(penalized, entropy=h, weight=weight)
        for h, weight in ((0.4, 0.02), (0.2, 0.1))
    },
    "ensemble": {
        f"w = {weight}": partial(verified, rule=partial(ensemble, weight)) for weight in (1, 0.5, 0.3)
    },
    "FLy": {
        f"H = {h}, W = {ahead}": partial(verified, rule=partial(fly, h, ahead))
        for h, ahead in ((0.3, 6), (0.3, 1))
    },
}

OPTIONS = {"rules": [*RULES], "prompts": 136}


def measure(rules: list[str], prompts: int, output: Path) -> None:
    """Measure all settings of some rules; other rules in `output` are kept."""
    origin, checkpoint = report.provenance(), load_checkpoint(CHAT, "cpu")
    asked = [*calibration.ask(checkpoint, prompts)]
    for rule in rules:
        record = origin | {"machine": results.machine(checkpoint), "model": CHAT, "rule": rule}
        record |= {"prompts": prompts, "rows": []}
        for setting, answered in RULES[rule].items():
            row = calibration.row(checkpoint, asked, partial(answered, checkpoint))
            record["rows"].append({"setting": setting} | row)
        calibration.keep(output, record, ("rule",))


def table(file: str | Path = FILE) -> str:
    """Return a row per setting of the chat model: those of the rules here and of all criteria."""
    criteria = [one for one in results.read_results(calibration.FILE)["sweeps"] if one["model"] == CHAT]
    rules = results.read_results(file)["sweeps"]
    rows = [calibration.cells(one, row) for one in (*criteria, *rules) for row in one["rows"]]
    sources = "".join(report.source(one, report.prompts(one)) for one in rules)
    return report.shown(rows) + sources


if __name__ == "__main__":
    report.run()
