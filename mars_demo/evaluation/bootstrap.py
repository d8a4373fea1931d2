"""Confidence intervals over prompts: the bootstrap with percentiles, the same resamples every time."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0


def interval(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, float]:
    """Where Σ parts / Σ wholes lies with a confidence of `LEVEL`, if other prompts had been drawn.

    parts, wholes: of each prompt, say whether its answer is right and 1, or its tokens and its forwards.
    Prompts that are all alike give an interval without width.

    Raises:
        ValueError: if there are no prompts, or the two differ in length.
    """
    if not len(parts) or len(parts) != len(wholes):
        raise ValueError(
            f"An interval needs two numbers of at least one prompt, not {len(parts)} and {len(wholes)}."
        )
    counts = _resamples(len(parts))
    ratios = counts @ np.asarray(parts, float) / (counts @ np.asarray(wholes, float))
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


@lru_cache(maxsize=2)
def _resamples(prompts: int) -> np.ndarray:
    """[RESAMPLES, prompts] how often each resample draws each prompt. All points of a sweep share them."""
    drawn = np.random.default_rng(SEED).multinomial(prompts, [1 / prompts] * prompts, RESAMPLES)
    return drawn.astype(float)
