"""Task files in the format of the lm-evaluation-harness, with small local data sets."""

import json
from pathlib import Path

import yaml

from mars_demo import tasks

TASKS = ("units", "reversing", "sorting")
LONG = " ".join(example.answer for example in tasks.held_out("stories", 30))  # longer than the context

SHARED = {
    "dataset_path": "json",
    "test_split": "test",
    "fewshot_split": "train",
    "fewshot_config": {"sampler": "first_n"},
    "doc_to_text": "{{prompt}}",
    "doc_to_target": "{{answer}}",
    "metadata": {"version": 1.0},
}
MEAN = {"aggregation": "mean", "higher_is_better": True}
FILES = {
    "local-answers": SHARED
    | {
        "output_type": "generate_until",
        "generation_kwargs": {"until": [". ", "\n\n", "<|user|>"], "max_gen_toks": 40, "do_sample": False},
        "doc_to_target": "{{first}}",
        "num_fewshot": 1,
        "filter_list": [
            {"name": "whole", "filter": [{"function": "take_first"}]},
            {
                "name": "number",
                "filter": [
                    {"function": "regex", "regex_pattern": "(-?[0-9.]+)", "group_select": -1},
                    {"function": "take_first"},
                ],
            },
        ],
        "metric_list": [{"metric": "exact_match"} | MEAN],
    },
    "local-choices": SHARED
    | {
        "output_type": "multiple_choice",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{right}}",
        "num_fewshot": 2,
        "metric_list": [{"metric": "acc"} | MEAN, {"metric": "acc_norm"} | MEAN],
    },
}
NAMES = tuple(FILES)


def document(number: int, example: tasks.Example, others: list[tasks.Example]) -> dict:
    choices = [example.answer, *(other.answer for other in others)]
    right = number % len(choices)
    choices[0], choices[right] = choices[right], choices[0]
    return {
        "prompt": example.prompt,
        "answer": example.answer,
        "first": example.answer.split(". ")[0],
        "choices": choices,
        "right": right,
    }


def write(folder: Path, count: int = 4) -> Path:
    """Write `FILES` with `count` documents each, and return the folder."""
    for split, first in (("train", 0), ("test", 3)):
        documents = []
        for number in range(count):
            examples = tasks.held_out(TASKS[number % len(TASKS)], first + count + 3)[first:]
            documents.append(document(number, examples[number], examples[count : count + 3]))
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in documents)
        (folder / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    data = {split: str(folder / f"{split}.jsonl") for split in ("train", "test")}
    for name, config in FILES.items():
        task = {"task": name} | config | {"dataset_kwargs": {"data_files": data}}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    return folder
