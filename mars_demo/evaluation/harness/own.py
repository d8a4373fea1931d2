"""This project's own tasks and graders, to which the task files in `assets/harness` refer."""

from collections.abc import Sequence
from functools import cache

from datasets import Dataset

from mars_demo import tasks
from mars_demo.tasks import instructions as verifiable

DOCUMENTS = 200  # held-out prompts per task; a smaller limit takes the first ones


def world(world: str, **_) -> dict[str, Dataset]:
    """Return the held-out prompts of a task; the harness passes unrelated settings too."""
    rows = [
        {"world": world, "number": number, "prompt": example.prompt, "answer": example.answer}
        for number, example in enumerate(_examples(world))
    ]
    return {"test": Dataset.from_list(rows)}


def grade_world(document: dict, answers: Sequence[str]) -> dict[str, float]:
    """Return the task's own grade of an answer.

    Unlike `evaluation.accuracy`, it does not require an end token, which the harness does not report.
    """
    example = _examples(document["world"])[document["number"]]
    return {"acc": float(tasks.task(example.task).grade(example, answers[0]))}


def instructions(**_) -> dict[str, Dataset]:
    """Return the verifiable instructions."""
    return {"test": Dataset.from_list([{"id": i.id, "prompt": i.prompt} for i in _instructions().values()])}


def grade_instruction(document: dict, answers: Sequence[str]) -> dict[str, float]:
    """Return the grade of an answer: 1 if all checks of the instruction hold."""
    return {"acc": float(_instructions()[document["id"]].holds(answers[0]))}


@cache
def _examples(world: str) -> list[tasks.Example]:
    return tasks.held_out(world, DOCUMENTS)


@cache
def _instructions() -> dict[str, verifiable.Instruction]:
    return {instruction.id: instruction for instruction in verifiable.instructions()}
