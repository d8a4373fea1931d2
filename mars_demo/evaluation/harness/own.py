"""What the task files in `assets/harness` refer to: this project's own tasks, and their graders."""

from collections.abc import Sequence
from functools import cache

from datasets import Dataset

from mars_demo import tasks
from mars_demo.tasks import instructions as checked

DOCUMENTS = 200  # held-out prompts of a world; the first of them are those of any smaller number


def world(world: str, **_) -> dict[str, Dataset]:
    """The held-out prompts of a world. The harness hands over settings of other tasks too."""
    rows = [
        {"world": world, "number": number, "prompt": example.prompt, "answer": example.answer}
        for number, example in enumerate(_examples(world))
    ]
    return {"test": Dataset.from_list(rows)}


def grade_world(document: dict, answers: Sequence[str]) -> dict[str, float]:
    """The world's own grade. The harness does not say whether the model has ended the answer itself, which
    `evaluation.accuracy` wants too."""
    example = _examples(document["world"])[document["number"]]
    return {"acc": float(tasks.task(example.task).grade(example, answers[0]))}


def instructions(**_) -> dict[str, Dataset]:
    """The instructions that can be checked."""
    return {"test": Dataset.from_list([{"id": i.id, "prompt": i.prompt} for i in _instructions().values()])}


def grade_instruction(document: dict, answers: Sequence[str]) -> dict[str, float]:
    """Whether all checks of the instruction hold."""
    return {"acc": float(_instructions()[document["id"]].holds(answers[0]))}


@cache
def _examples(world: str) -> list[tasks.Example]:
    return tasks.held_out(world, DOCUMENTS)


@cache
def _instructions() -> dict[str, checked.Instruction]:
    return {instruction.id: instruction for instruction in checked.instructions()}
