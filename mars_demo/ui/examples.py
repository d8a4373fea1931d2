"""The example prompts of the page, each made for one model."""

from mars_demo.core.assets import read_json
from mars_demo.core.names import BASE, TINY
from mars_demo.ui.hosting.registry import MODELS

PROMPTS = read_json("prompts.json")
EXAMPLES = {e["model"]: [own for own in PROMPTS if own["model"] == e["model"]] for e in PROMPTS}


def examples_for(model: str | None) -> list[dict]:
    """Return the examples that suit a model."""
    return EXAMPLES[suited(model)]


def suited(model: str | None) -> str:
    """Return the model whose examples suit a model: the tiny one for models trained on its tasks."""
    if model in EXAMPLES:
        return model
    knows_tasks_only = model in (TINY, BASE) or model not in MODELS.names(downloaded=False)
    return TINY if knows_tasks_only else next(iter(EXAMPLES))  # a chat model
