"""`evaluate`: measure accuracy and tokens per forward on held-out prompts."""

import argparse
import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from mars_demo import tasks
from mars_demo.cli import loading
from mars_demo.cli.output import check_writable
from mars_demo.cli.request import add_decoding, alone
from mars_demo.core.names import DTYPE, is_hub_id
from mars_demo.decoding.request import Request
from mars_demo.evaluation.frontier import Point, parse_taus
from mars_demo.evaluation.sweep import evaluate
from mars_demo.models.export import card
from mars_demo.models.load import load_checkpoint


def register(parser: argparse.ArgumentParser) -> None:
    loading.register(parser)
    parser.add_argument("--dtype", **DTYPE)
    add_decoding(parser, alone(), tau=False)
    parser.add_argument(
        "--tasks",
        default="tasks",
        metavar="A,B",
        help="task names; tasks or skills for all (default: tasks)",
    )
    parser.add_argument("--taus", default="1,0.95,0.9", metavar="T,T", help="τ, for modes that use it")
    parser.add_argument("--limit", type=int, default=40, metavar="N", help="prompts per task")
    parser.add_argument("--output", type=Path, metavar="FILE.json", help="also write the results to a file")
    parser.add_argument(
        "--benchmark",
        metavar="OWNER/NAME",
        help="benchmark of the hub with these tasks: the checkpoint's results are written for it, too",
    )


def run(arguments: argparse.Namespace) -> None:
    taus = parse_taus(arguments.taus)
    names = tasks.named(arguments.tasks)
    if arguments.benchmark and not is_hub_id(arguments.benchmark):
        raise ValueError(f"Name the hub's benchmark as OWNER/NAME, not {arguments.benchmark!r}.")
    if arguments.output:
        check_writable(arguments.output)
    checkpoint = load_checkpoint(arguments.model, None, arguments.dtype, arguments.block_size)
    request = Request(arguments.mode, criterion=arguments.criterion, window=arguments.window)
    request = request.fitted(checkpoint)
    loading.say_raw(checkpoint)
    rows, points = [], []
    for task, point in evaluate(checkpoint, request, taus, names, arguments.limit):
        if not rows:
            print(f"{'task':<20}{'τ':>6}{'n':>6}{'accuracy':>10}{'tokens/forward':>16}{'tokens/s':>10}")
        rows.append(point.row(task))
        points.append(point)
        print_row(rows[-1])
    for setting in dict.fromkeys(point.setting for point in points):
        same = [point for point in points if point.setting == setting]
        outcomes = tuple(answer for point in same for answer in point.outcomes)
        print_row(Point(setting, outcomes, sum(point.seconds for point in same)).row("average"))
    if arguments.output:
        record = {"model": checkpoint.name, "mode": request.mode, "criterion": request.criterion}
        record |= {"rows": rows}
        if arguments.benchmark:
            record |= {"benchmark": arguments.benchmark, "date": date.today().isoformat()}
        arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        folder = arguments.output.parent
        if arguments.output.name == "results.json" and (folder / "recipe.json").exists():
            card.write_model_card(folder)


def print_row(row: Mapping[str, Any]) -> None:
    tau = "-" if row["tau"] is None else f"{row['tau']:g}"
    print(
        f"{row['task']:<20}{tau:>6}{row['n']:>6}{row['accuracy']:>10.1%}{row['tokens_per_forward']:>16.2f}"
        f"{row['tokens'] / row['seconds']:>10.0f}",
        flush=True,
    )
