"""Where this project's comparison agrees with the paper's and where it does not, in sentences.

Each function is one claim: a heading and what was measured, here and in the paper. `benchmarks.report`
puts them into the documents.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

from mars_demo.evaluation import paper_tables, results
from mars_demo.evaluation.accuracy import Row
from mars_demo.evaluation.paper_tables import PAPER

SIZES = paper_tables.SIZES
METHODS = (
    "AR SFT",
    "AR SFT, compute-matched",
    "Block diffusion, B = 4",
    *(f"MARS, B = {b}" for b in SIZES),
    *(f"MARS without SFT loss, B = {b}" for b in SIZES),
)
SMALL_AR = "AR SFT (5 ep)"  # the paper's names of its 0.5B baseline
SMALL_AR_TWICE = "AR SFT (10 ep)"


# ------------------------------------------------------------------------------ what was measured


def runs(methods: Sequence[str]) -> dict[tuple[str, str], list[dict]]:
    """The rows of these methods by method and decoding."""
    groups = results.grouped(results.read("paper.json")["rows"])
    return {key: rows for key, rows in groups.items() if key[0] in methods}


def _seeds(method: str, decoding: str) -> list[Row]:
    """The average of each seed over the worlds."""
    return list(results.averages(runs([method])[method, decoding], "seed").values())


def accuracy(method: str, decoding: str) -> float:
    """Mean over the seeds, in percent."""
    return 100 * statistics.mean(seed.accuracy for seed in _seeds(method, decoding))


def per_forward(method: str, decoding: str) -> float:
    """Tokens per forward, mean over the seeds."""
    return statistics.mean(seed.tokens_per_forward for seed in _seeds(method, decoding))


def _ours(name: str, decoding: str, read: Callable[[str, str], float] = accuracy) -> list[float]:
    """A number of one method for each block size."""
    return [read(f"{name}, B = {b}", decoding) for b in SIZES]


def _theirs(key: str, **wanted) -> dict:
    return next(r for r in PAPER[key] if all(r[name] == value for name, value in wanted.items()))


def _table2(scale: str, model: str) -> float:
    return _theirs("table2_one_token_mode", scale=scale, model=model, sft_loss=None)["Avg"]


def _table3(scale: str, sft_loss: bool) -> list[float]:
    return [
        _theirs("table3_sft_loss", scale=scale, model="MARS", block_size=b, sft_loss=sft_loss)["Avg"]
        for b in SIZES
    ]


def _table4(scale: str, what: str) -> list[float]:
    return [_theirs("table4_multi_token", scale=scale, block_size=b, tau=0.95)[what]["Avg"] for b in SIZES]


def _each(values: Sequence[float], digits: int = 1, to: str = ", ") -> str:
    return to.join(f"{value:.{digits}f}" for value in values)


# ------------------------------------------------------------------------------------- the claims


def _sft_loss() -> tuple[str, str]:
    without = _each(_ours("MARS without SFT loss", "ar"), to=" to ")
    return "The SFT loss preserves the model (Table 3): agrees, and more sharply.", (
        f"Without it, accuracy at one token per forward falls as blocks grow, from {without} % for B = 4, "
        f"8 and 16; with it, accuracy is {_each(_ours('MARS', 'ar'))} %. In the paper (0.5B) it falls from "
        f"{_each(_table3('0.5B', False), to=' to ')}."
    )


def _block_diffusion() -> tuple[str, str]:
    lost = accuracy("AR SFT", "ar") - accuracy("Block diffusion, B = 4", "diffusion τ = 1")
    they_lost = _table2("0.5B", SMALL_AR) - _table2("0.5B", "Block Diffusion")
    return "Block diffusion loses quality (Table 2): agrees.", (
        f"It loses {lost:.0f} points here and {they_lost:.1f} on average in the paper (0.5B)."
    )


def _mars_and_ar() -> tuple[str, str]:
    mars, ar = _ours("MARS", "ar"), accuracy("AR SFT", "ar")

    def gained(scale: str, base: str) -> str:
        return _each([value - _table2(scale, base) for value in _table3(scale, True)])

    return "MARS is better than AR SFT (Tables 2 and 3): not here.", (
        f"{min(mars):.1f} to {max(mars):.1f} % against {ar:.1f} %, within the spread of the seeds. The "
        f"paper gains {gained('0.5B', SMALL_AR)} points at 0.5B and {gained('7B', 'AR SFT')} at 7B for "
        "B = 4, 8 and 16."
    )


def _more_ar() -> tuple[str, str]:
    more = accuracy("AR SFT, compute-matched", "ar") - accuracy("AR SFT", "ar")
    they_more = _table2("0.5B", SMALL_AR_TWICE) - _table2("0.5B", SMALL_AR)
    return "More AR training does not help (Table 2): not here.", (
        f"Twice the steps change the accuracy by {more:+.1f} points, about as much as the spread; in the "
        f"paper by {they_more:+.1f} (0.5B)."
    )


def _tau() -> tuple[str, str]:
    def cost(scale: str) -> str:
        pairs = zip(_table3(scale, True), _table4(scale, "accuracy"))
        return _each([one - several for one, several in pairs])

    ours = [one - several for one, several in zip(_ours("MARS", "ar"), _ours("MARS", "τ = 0.95"))]
    return "τ = 0.95 costs little (Table 4): agrees for small blocks.", (
        f"It costs {_each(ours)} points here for B = 4, 8 and 16; in the paper {cost('0.5B')} at 0.5B and "
        f"{cost('7B')} at 7B. Tokens per forward are {_each(_ours('MARS', 'τ = 0.95', per_forward), 2)}; "
        f"in the paper {_each(_table4('0.5B', 'tokens_per_forward'), 2)} at 0.5B and "
        f"{_each(_table4('7B', 'tokens_per_forward'), 2)} at 7B. The answers of these worlds follow more "
        "from their questions than chat does. Larger blocks are slower here after so few steps."
    )


def _jacobi() -> tuple[str, str]:
    theirs = PAPER["table9_jacobi"][1]["tokens_per_forward"]
    return "Jacobi needs no training and gives little (Table 9): agrees.", (
        f"{per_forward('AR SFT', 'jacobi'):.2f} tokens per forward; the paper has {theirs:.2f}."
    )


def _lossless() -> tuple[str, str]:
    rates = _each(_ours("MARS", "lossless", per_forward), 2)
    return "Lossless, which the paper does not have,", (
        f"accepts the most tokens per forward at every B, {rates}, and its answers are those of one token "
        "per forward. Time was not compared in these runs."
    )


CLAIMS = (_sft_loss, _block_diffusion, _mars_and_ar, _more_ar, _tau, _jacobi, _lossless)


def claims() -> str:
    """All claims as a list."""
    bullets = (f"- **{heading}** {said}" for heading, said in (claim() for claim in CLAIMS))
    sources = "`assets/results/paper.json` and `assets/paper_tables.json`"
    return "\n".join(bullets) + f"\n\n<sub>Means over seeds, from {sources}.</sub>"
