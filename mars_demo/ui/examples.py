"""The example prompts of the page, each made for one model; some suit any chat model."""

from mars_demo.core.assets import read_json
from mars_demo.core.names import BASE, TINY
from mars_demo.ui.generation import GREEDY
from mars_demo.ui.hosting.registry import MODELS

PROMPTS = read_json("prompts.json")
SHAPED = {
    example["prompt"]: (example["shape"], example["grammar"]) for example in PROMPTS if "shape" in example
}
GENERAL = "any chat model"
EXAMPLES = {e["model"]: [own for own in PROMPTS if own["model"] == e["model"]] for e in PROMPTS}
EXAMPLES[GENERAL] = [example for example in PROMPTS if example.get("general")]


def examples_for(model: str | None) -> list[dict]:
    """Return the examples that suit a model; models trained on tasks have the tiny one's."""
    if model not in EXAMPLES:
        knows_tasks_only = model in (TINY, BASE) or model not in MODELS.names()
        model = TINY if knows_tasks_only else GENERAL
    return EXAMPLES[model]


def with_shape(prompt: str) -> tuple[str, str, str]:
    """Return a prompt with the shape of its answer and the grammar, if it is an example that has one."""
    return prompt, *SHAPED.get(prompt, (GREEDY.shape, GREEDY.grammar))
