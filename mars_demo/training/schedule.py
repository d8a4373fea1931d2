"""How learning rates go over a run: warm-up and cosine, and the mask's own."""

from __future__ import annotations

import math

from mars_demo.training.recipe import Recipe

MASK_FACTOR = 10  # times the rate of the weights, and
MASK_REST = 1 / 20  # of its own rate, fading out, is what the mask vector learns at after its head start


def body_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of the weights at a step, from 0, relative to the recipe's.

    0 during the mask's head start; then a linear warm-up and a cosine down to the final rate.
    """
    begin = round(recipe.mask_head_start * recipe.steps)
    warmup = round(recipe.warmup * recipe.steps)
    if step < begin:
        return 0.0
    if step < begin + warmup:
        return (step - begin) / warmup
    share = (step - begin - warmup) / max(1, recipe.steps - begin - warmup)
    final = recipe.final_learning_rate / recipe.learning_rate
    return final + (1 - final) * max(0.0, 0.5 * (1 + math.cos(math.pi * share)))


def mask_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of the mask vector at a step, relative to the recipe's `mask_learning_rate`.

    All of it during the head start; then one that follows the weights.
    """
    if step < round(recipe.mask_head_start * recipe.steps):
        return 1.0
    follows = MASK_FACTOR * recipe.learning_rate / recipe.mask_learning_rate * body_rate(recipe, step)
    return follows + MASK_REST * (1 - step / recipe.steps)
