"""The command line: generate, train, evaluate, models."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NoReturn

# Read before transformers is imported: standard error is for this program's own progress and notices.
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, like every other complaint of this program."""
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    main_parser = Parser(prog="mars_demo", description="Multi-token decoding, recorded pass by pass.")
    commands = main_parser.add_subparsers(dest="command", required=True)

    generate = commands.add_parser("generate", help="answer a prompt")
    generate.add_argument("prompt")
    generate.add_argument("--model", help="bundled name, folder or hub id (default: best bundled)")
    generate.add_argument("--mode", choices=["ar", "mars", "lossless"])
    generate.add_argument("--tau", type=float, default=0.95, help="accept while confidence ≥ τ")
    generate.add_argument("--window", type=int, metavar="N", help="slots per pass")
    generate.add_argument(
        "--linear",
        action=argparse.BooleanOptionalAction,
        help="lossless with 2K+1 positions per pass (default: on a CPU)",
    )
    generate.add_argument("--max-new-tokens", type=int, default=256, metavar="N")
    generate.add_argument("--raw", action="store_true", help="skip the chat template")
    generate.add_argument("--trace", metavar="FILE", help="write the run record; - for standard output")
    generate.set_defaults(run=run_generate)

    train = commands.add_parser("train", help="train a checkpoint further")
    train.add_argument("--base", required=True, help="bundled name, folder or hub id")
    train.add_argument("--objective", choices=["ar", "mars"], default="mars")
    train.add_argument("--no-sft-loss", action="store_true", help="leave out the clean stream's loss")
    train.add_argument("--block-size", type=int, default=8, metavar="B")
    train.add_argument("--data", default="tasks", help="tasks, tasks:NAME,NAME or FILE.jsonl")
    train.add_argument("--steps", type=int, default=1000, metavar="N")
    train.add_argument("--learning-rate", type=float, metavar="LR")
    train.add_argument("--output", type=Path, required=True, metavar="DIR")
    train.add_argument("--resume", action="store_true", help="go on from the last saved state in DIR")
    train.set_defaults(run=run_train)

    evaluate = commands.add_parser("evaluate", help="accuracy and tokens per forward on held-out prompts")
    evaluate.add_argument("--model", help="bundled name, folder or hub id (default: best bundled)")
    evaluate.add_argument("--mode", choices=["ar", "mars", "lossless"])
    evaluate.add_argument("--tasks", metavar="A,B", help="default: all")
    evaluate.add_argument("--taus", default="1.0,0.95,0.9", metavar="T,T")
    evaluate.add_argument("--window", type=int, metavar="N", help="slots per pass")
    evaluate.add_argument("--limit", type=int, default=40, metavar="N", help="prompts per task")
    evaluate.add_argument("--output", type=Path, metavar="FILE.json")
    evaluate.set_defaults(run=run_evaluate)

    models = commands.add_parser("models", help="list the bundled checkpoints")
    models.set_defaults(run=run_models)
    return main_parser


def default_mode(checkpoint, mode: str | None) -> str:
    return mode or ("ar" if checkpoint.block_size is None else "mars")


def run_generate(arguments: argparse.Namespace) -> None:
    from mars_demo import checkpoints, decoding

    checkpoint = checkpoints.load(arguments.model)
    run = decoding.decode(
        checkpoint,
        arguments.prompt,
        mode=default_mode(checkpoint, arguments.mode),
        tau=arguments.tau,
        window=arguments.window,
        max_new_tokens=arguments.max_new_tokens,
        raw=arguments.raw,
        linear=arguments.linear,
    )
    only_record = arguments.trace == "-"
    try:
        if only_record:
            print(run.first_line(), flush=True)
        for step in run:
            print(step.line() if only_record else step.text, end="\n" if only_record else "", flush=True)
    except KeyboardInterrupt:
        run.close()
    if only_record:
        print(run.last_line(), flush=True)
        return
    print()
    if arguments.trace:
        Path(arguments.trace).write_text("".join(f"{line}\n" for line in run.lines()), encoding="utf-8")
    notice(
        f"{run.tokens} tokens in {run.forwards} forwards, {run.tokens_per_forward:.2f} per forward, "
        f"{run.seconds:.2f} s, stop: {run.stop}"
    )


def run_train(arguments: argparse.Namespace) -> None:
    import torch
    from tqdm import tqdm

    from mars_demo import checkpoints
    from mars_demo.training import Recipe, train

    rate = {} if arguments.learning_rate is None else {"learning_rate": arguments.learning_rate}
    recipe = Recipe(
        objective=arguments.objective,
        block_size=arguments.block_size,
        sft_weight=0.0 if arguments.no_sft_loss else 1.0,
        data=arguments.data,
        steps=arguments.steps,
        **rate,
    )
    base = checkpoints.load(arguments.base, dtype=torch.float32)
    bar = None  # drawn from the first step on: before it, there may be a complaint to make
    for metrics in train(base.model, base.tokenizer, recipe, arguments.output, arguments.resume):
        bar = bar or tqdm(total=recipe.steps, unit="step", desc=arguments.output.name)
        bar.update(metrics.step - bar.n)
        bar.set_postfix(clean=f"{metrics.clean:.3f}", noisy=f"{metrics.noisy or 0:.3f}")
    if bar:
        bar.close()
    notice(f"Saved {arguments.output}.")


def run_evaluate(arguments: argparse.Namespace) -> None:
    from mars_demo import checkpoints, evaluation

    taus = numbers(arguments.taus)
    names = arguments.tasks.split(",") if arguments.tasks else None
    checkpoint = checkpoints.load(arguments.model)
    mode = default_mode(checkpoint, arguments.mode)
    rows = []
    for row in evaluation.evaluate(checkpoint, mode, taus, names, arguments.limit, arguments.window):
        if not rows:
            print(f"{'task':<16}{'τ':>6}{'n':>6}{'accuracy':>10}{'tokens/forward':>16}{'tokens/s':>10}")
        rows.append(row)
        print_row(row)
    for tau in dict.fromkeys(row.tau for row in rows):
        print_row(evaluation.average([row for row in rows if row.tau == tau]))
    if arguments.output:
        record = {"model": checkpoint.name, "mode": mode, "rows": [asdict(row) for row in rows]}
        arguments.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def print_row(row) -> None:
    tau = "-" if row.tau is None else f"{row.tau:g}"
    print(
        f"{row.task:<16}{tau:>6}{row.n:>6}{row.accuracy:>10.1%}{row.tokens_per_forward:>16.2f}"
        f"{row.tokens / row.seconds:>10.0f}",
        flush=True,
    )


def numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--taus takes numbers parted by commas, not {text!r}.") from None


def run_models(arguments: argparse.Namespace) -> None:
    from mars_demo import checkpoints

    for name in checkpoints.bundled():
        config = json.loads((checkpoints.ASSETS / name / "config.json").read_text())
        block_size = config.get("block_size")
        print(f"{name:<20}{f'MARS, block size {block_size}' if block_size else 'AR'}")


def notice(text: str) -> None:
    print(text, file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except (ValueError, OSError) as error:
        notice(f"mars_demo {arguments.command}: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        notice("Stopped.")
        return 130
    return 0
