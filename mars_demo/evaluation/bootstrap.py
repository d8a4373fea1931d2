"""Confidence intervals over prompts: the percentile bootstrap with fixed resamples."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

RESAMPLES = 2000
LEVEL = 0.95
SEED = 0


def interval(parts: Sequence[float], wholes: Sequence[float]) -> tuple[float, float]:
    """Return the bootstrap confidence interval of Σ parts / Σ wholes over prompts, at the level `LEVEL`.

    parts, wholes: two numbers per prompt, such as its correctness and 1, or its tokens and its forwards.
    Equal prompts give an interval of width 0.
    """
    counts = _resamples(len(parts))
    ratios = counts @ np.asarray(parts, float) / (counts @ np.asarray(wholes, float))
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


@lru_cache(maxsize=2)
def _resamples(prompts: int) -> np.ndarray:
    """Return [RESAMPLES, prompts] how often each resample has each prompt, the same for all points."""
    counts = np.random.default_rng(SEED).multinomial(prompts, [1 / prompts] * prompts, RESAMPLES)
    return counts.astype(float)
