"""`benchmark`: run tasks of the lm-evaluation-harness."""

import argparse
from importlib.util import find_spec
from pathlib import Path

from mars_demo.cli import loading
from mars_demo.cli.output import check_writable
from mars_demo.cli.request import add_decoding, alone
from mars_demo.decoding.acceptance import Acceptance
from mars_demo.evaluation import results
from mars_demo.models.names import DENSE


def register(parser: argparse.ArgumentParser) -> None:
    loading.register(parser)
    parser.add_argument("--dtype", choices=DENSE, default="auto")
    add_decoding(parser, alone())
    parser.add_argument(
        "--tasks",
        required=True,
        metavar="A,B",
        help="tasks of the harness, or paper for the paper's six",
    )
    parser.add_argument("--include-path", type=Path, metavar="FOLDER", help="folder with more task files")
    parser.add_argument("--limit", type=int, metavar="N", help="documents per task (default: all)")
    parser.add_argument(
        "--num-fewshot", type=int, metavar="N", help="few-shot examples (default: the task's)"
    )
    parser.add_argument(
        "--chat-template",
        action=argparse.BooleanOptionalAction,
        help="use the chat template (default: if there is one)",
    )
    parser.add_argument("--system", metavar="TEXT", help="system message of every prompt")
    parser.add_argument("--batch-size", type=int, default=8, metavar="N", help="sequences of a batch")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="keep answers there, and reuse them")
    parser.add_argument(
        "--confirm-run-unsafe-code",
        action="store_true",
        help="let tasks such as HumanEval execute code written by the model",
    )
    parser.add_argument("--output", type=Path, metavar="FILE.json")


def run(arguments: argparse.Namespace) -> None:
    Acceptance(arguments.criterion, arguments.tau)
    for name, least in (("limit", 1), ("batch_size", 1), ("num_fewshot", 0)):
        if (number := getattr(arguments, name)) is not None and number < least:
            raise ValueError(f"--{name.replace('_', '-')} must be at least {least}, not {number}.")
    if arguments.include_path and not arguments.include_path.is_dir():
        raise ValueError(f"{arguments.include_path} is not a folder. Choose one with task files (.yaml).")
    if arguments.output:
        check_writable(arguments.output)
    if find_spec("lm_eval") is None:
        raise ValueError(
            "The lm-evaluation-harness is not installed. Install it with "
            "`pip install -r requirements-eval.txt`."
        )
    from mars_demo.evaluation.harness import suite  # imports the harness
    from mars_demo.evaluation.harness.model import MarsLM

    tasks = suite.load(arguments.tasks.split(","), arguments.include_path)
    if not arguments.confirm_run_unsafe_code:
        suite.require_confirmed(tasks)
    checkpoint = loading.load(arguments.model, arguments.block_size, arguments.dtype).dense
    model = MarsLM(
        checkpoint,
        mode=arguments.mode,
        tau=arguments.tau,
        criterion=arguments.criterion,
        window=arguments.window,
        batch_size=arguments.batch_size,
    )
    record = suite.evaluate(
        model,
        tasks,
        limit=arguments.limit,
        shots=arguments.num_fewshot,
        chat_template=_templated(arguments.chat_template, checkpoint),
        system=arguments.system,
        cache=arguments.cache,
        unsafe_code=arguments.confirm_run_unsafe_code,
    )
    print_table(record["tasks"])
    if arguments.output:
        results.write(arguments.output, results.machine(model.checkpoint), record)


def _templated(template: bool | None, checkpoint) -> bool:
    if template and not checkpoint.has_template:
        raise ValueError(f"{checkpoint.name} has no chat template. Leave out --chat-template.")
    if template is None:
        loading.say_raw(checkpoint)
    return checkpoint.has_template if template is None else template


def print_table(rows: list[dict]) -> None:
    print(f"{'task':<32}{'n':>6}  {'metric':<36}{'value':>8}{'stderr':>8}{'tokens/forward':>16}")
    for row in rows:
        speed = f"{row['tokens_per_forward']:.2f}" if "forwards" in row else "-"
        for metric, value in row["metrics"].items():
            error = row["stderr"].get(metric)
            shown = "-" if error is None else f"{error:.3f}"
            print(
                f"{row['task']:<32}{row['n']:>6}  {metric.removesuffix(',none'):<36}{value:>8.3f}{shown:>8}"
                f"{speed:>16}"
            )
