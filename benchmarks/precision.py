"""What few bits per weight keep: the same choices, and answers whose checks hold.

    python -m benchmarks.precision [--model mars-smollm2-135m] [--held-out FILE] [--prompts 24]
        [--every 1] [--size 16] [--output FILE]

The reference is the same model in float32, decoded greedily, one token at a time. `same choice` is the
share of its answers' first 64 tokens that the other precision chooses too, given the tokens before them.
`checks held` is the share of the checked instructions, every n-th of them, that the precision's own answers
follow.
"""

from __future__ import annotations

import argparse
import itertools
from dataclasses import asdict, dataclass
from pathlib import Path

from pandas import DataFrame

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.evaluation import results
from mars_demo.evaluation.fidelity import COMPARED, Reference
from mars_demo.markdown import table
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.serving.decode_batch import decode_batch
from mars_demo.tasks import instructions
from mars_demo.training import distillation

MAX_NEW_TOKENS = 192
OTHERS = ("bfloat16", "int8", "int4")


@dataclass(frozen=True)
class Row:
    """A precision: the share of tokens it would choose as the reference does, and how many of the checked
    instructions its own answers follow."""

    precision: str
    same_choice: float
    held: int
    checked: int


def answers(checkpoint: Checkpoint, prompts: list[str], size: int) -> list[str]:
    request = Request("ar", max_new_tokens=MAX_NEW_TOKENS)
    if checkpoint.packed:
        return [decode(checkpoint, prompt, request).finish().text for prompt in prompts]
    return [run.text for run in decode_batch(checkpoint, prompts, request, size=size).finish().runs]


def row(
    checkpoint: Checkpoint, reference: Reference, checked: list[instructions.Instruction], size: int
) -> Row:
    told = answers(checkpoint, [instruction.prompt for instruction in checked], size)
    held = sum(instruction.holds(text) for instruction, text in zip(checked, told))
    return Row(checkpoint.precision, reference.agreement(checkpoint), held, len(checked))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mars-smollm2-135m")
    parser.add_argument("--held-out", default="assets/mars-smollm2-135m/held-out.jsonl")
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of the checked instructions")
    parser.add_argument("--size", type=int, default=16, help="rows of a batch, where the precision has any")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    model = load_checkpoint(arguments.model, "cpu", "float32")
    prompts = list(itertools.islice(distillation.prompts_from(arguments.held_out), arguments.prompts))
    checked = instructions.instructions()[:: arguments.every]
    reference = Reference(model, prompts, arguments.size, COMPARED)
    found = []
    for checkpoint in (model, *(load_checkpoint(arguments.model, "cpu", name) for name in OTHERS)):
        found.append(row(checkpoint, reference, checked, arguments.size))
        print(asdict(found[-1]), flush=True)
    compared = sum(len(run.token_ids) for run in reference.runs)
    shown = [
        {
            "precision": one.precision,
            f"same choice of {compared}": f"{one.same_choice:.1%}",
            f"checks held of {one.checked}": f"{one.held} ({one.held / one.checked:.1%})",
        }
        for one in found
    ]
    machine = results.machine(model)
    print(f"\n{machine}, {len(prompts)} held-out prompts\n\n{table(DataFrame(shown))}")
    if arguments.output:
        rows = [asdict(one) for one in found]
        results.write(
            arguments.output, machine, {"prompts": len(prompts), "compared": compared, "rows": rows}
        )


if __name__ == "__main__":
    main()
