"""The command line: generate, train, evaluate, models."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import NoReturn

# Read before transformers is imported: standard error is for this program's own progress and notices.
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


MODES = ["ar", "mars", "lossless", "jacobi", "block-diffusion", "speculative"]


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, like every other complaint of this program."""
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    main_parser = Parser(prog="mars_demo", description="Multi-token decoding, recorded pass by pass.")
    commands = main_parser.add_subparsers(dest="command", required=True)

    generate = commands.add_parser("generate", help="answer a prompt")
    generate.add_argument("prompt")
    generate.add_argument(
        "--model", help="bundled name, folder, GGUF file or hub id (default: best bundled)"
    )
    generate.add_argument("--mode", choices=MODES)
    generate.add_argument("--tau", type=float, default=0.95, help="accept while confidence ≥ τ")
    generate.add_argument("--window", type=int, metavar="N", help="slots per pass")
    generate.add_argument(
        "--linear",
        action=argparse.BooleanOptionalAction,
        help="lossless with 2K+1 positions per pass (default: on a CPU)",
    )
    generate.add_argument("--draft", metavar="NAME", help="with --mode speculative: who drafts")
    generate.add_argument("--temperature", type=float, metavar="T", help="draw tokens at it")
    generate.add_argument("--top-p", type=float, metavar="P", help="draw from the most probable P")
    generate.add_argument("--top-k", type=int, metavar="K", help="draw from the K most probable tokens")
    generate.add_argument("--seed", type=int, metavar="N", help="of the draws (default 0)")
    generate.add_argument("--max-new-tokens", type=int, default=256, metavar="N")
    generate.add_argument("--raw", action="store_true", help="skip the chat template")
    generate.add_argument("--trace", metavar="FILE", help="write the run record; - for standard output")
    generate.set_defaults(run=run_generate)

    train = commands.add_parser("train", help="train a checkpoint further")
    train.add_argument("--base", required=True, help="bundled name, folder, GGUF file or hub id")
    train.add_argument("--objective", choices=["ar", "mars", "block-diffusion"], default="mars")
    train.add_argument("--block-size", type=int, default=8, metavar="B", help="masks per block, 2 to 32")
    train.add_argument(
        "--sft-weight", type=float, metavar="λ", help="of the clean stream's loss (default 1)"
    )
    train.add_argument(
        "--no-sft-loss", dest="sft_weight", action="store_const", const=0.0, help="the same as λ = 0"
    )
    train.add_argument("--kl-weight", type=float, metavar="κ", help="of KL(clean ‖ noisy) (default 0)")
    train.add_argument("--fixed-blocks", action="store_true", default=None, help="no random block phase")
    train.add_argument(
        "--whole-copy",
        action="store_true",
        default=None,
        help="a noisy copy of the prompt too, as the paper",
    )
    train.add_argument(
        "--data",
        default="tasks",
        help="tasks, tasks:NAME,NAME, FILE.jsonl, a hub id, or self (its own answers)",
    )
    train.add_argument("--prompts", metavar="FILE", help="with --data self: a text or JSONL file, or tasks")
    train.add_argument("--conversations", type=int, default=2000, metavar="N", help="with --data self")
    train.add_argument("--steps", type=int, metavar="N")
    train.add_argument(
        "--batch-tokens", type=int, metavar="N", help="clean positions per batch, with padding"
    )
    train.add_argument("--accumulate", type=int, metavar="N", help="batches per step and process")
    train.add_argument("--max-length", type=int, metavar="N", help="longer conversations are left out")
    train.add_argument("--learning-rate", type=float, metavar="LR")
    train.add_argument(
        "--gradient-checkpointing", action="store_true", default=None, help="slower, less memory"
    )
    train.add_argument("--lora", type=int, metavar="RANK", help="train adapters, merged on saving")
    train.add_argument("--seed", type=int, metavar="N")
    train.add_argument("--save-every", type=int, metavar="N", help="steps between saved states")
    train.add_argument("--output", type=Path, required=True, metavar="DIR")
    train.add_argument("--resume", action="store_true", help="go on from the last saved state in DIR")
    train.add_argument("--push-to-hub", metavar="OWNER/NAME", help="upload DIR when it is done")
    train.set_defaults(run=run_train)

    evaluate = commands.add_parser("evaluate", help="accuracy and tokens per forward on held-out prompts")
    evaluate.add_argument(
        "--model", help="bundled name, folder, GGUF file or hub id (default: best bundled)"
    )
    evaluate.add_argument("--mode", choices=MODES[:-1])
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
    return mode or checkpoint.modes[0]


def run_generate(arguments: argparse.Namespace) -> None:
    from mars_demo import checkpoints, decoding

    only_record = arguments.trace == "-"
    if arguments.trace and not only_record:
        check_writable(Path(arguments.trace))
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
        draft=checkpoints.load(arguments.draft) if arguments.draft else None,
        sampling=sampling_of(arguments),
    )
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
    notice(f"{run.tokens} tokens in {forwards_of(run)}, {run.seconds:.2f} s, stop: {run.stop}")


def forwards_of(run) -> str:
    """How many forwards a run took and what each gave. Where a second model drafts, its forwards are work
    too, which tokens per forward of the target leave out."""
    if run.settings.mode != "speculative":
        return f"{run.forwards} forwards, {run.tokens_per_forward:.2f} per forward"
    drafted = sum(step.draft_forwards for step in run.passes)
    either = run.tokens / (run.forwards + drafted)
    return (
        f"{run.forwards} forwards of the target and {drafted} of the draft, "
        f"{run.tokens_per_forward:.2f} per forward of the target, {either:.2f} per forward of either"
    )


def check_writable(path: Path) -> None:
    """Before any work is done for it.

    Raises:
        ValueError: if no file of that name can be there.
    """
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: name a file in a folder that exists.")


def sampling_of(arguments: argparse.Namespace):
    """How tokens are drawn, or None if nothing asks for that."""
    from mars_demo.sampling import Sampling

    given = {field.name: getattr(arguments, field.name) for field in fields(Sampling)}
    given = {name: value for name, value in given.items() if value is not None}
    return Sampling(**given) if given else None


def run_train(arguments: argparse.Namespace) -> None:
    import torch
    from tqdm import tqdm

    from mars_demo import card, checkpoints
    from mars_demo.training import Recipe, train

    if arguments.push_to_hub and not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.push_to_hub):
        raise ValueError(f"--push-to-hub takes OWNER/NAME, not {arguments.push_to_hub!r}.")
    given = {field.name: getattr(arguments, field.name, None) for field in fields(Recipe)}
    recipe = Recipe(**{name: value for name, value in given.items() if value is not None})
    base = checkpoints.load(arguments.base, dtype=torch.float32)
    if recipe.data == "self":
        recipe = replace(recipe, data=str(own_answers(base, arguments)))
    bar = first = None  # drawn from the first step on: before it, there may be a complaint to make
    for metrics in train(base.model, base.tokenizer, recipe, arguments.output, arguments.resume):
        bar = bar or tqdm(total=recipe.steps, unit="step", desc=arguments.output.name)
        bar.update(metrics.step - bar.n)
        first = first or metrics
        speed = (metrics.tokens - first.tokens) / max(1e-9, metrics.seconds - first.seconds)
        losses = {name: f"{loss:.3f}" for name, loss in metrics.losses.items()}
        bar.set_postfix(losses | {"tokens/s": f"{speed:.0f}"})
    if bar:
        bar.close()
    if bar is None or int(os.environ.get("RANK", 0)):
        return  # nothing was left to do, or another process writes
    measured = {"base": arguments.base, "tokens": metrics.tokens, "tokens_per_second": round(speed)}
    record = asdict(recipe) | measured | metrics.losses
    (arguments.output / "recipe.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    (arguments.output / "results.json").unlink(missing_ok=True)  # of the weights that were here before
    card.write(arguments.output)
    notice(f"Saved {arguments.output}.")
    if arguments.push_to_hub:
        push(arguments.output, arguments.push_to_hub)


def push(folder: Path, repository: str) -> None:
    """Upload a checkpoint folder without the logs and the data of its training.

    Raises:
        ValueError: if the hub refuses it or cannot be reached.
    """
    from huggingface_hub import HfApi

    try:
        HfApi().create_repo(repository, exist_ok=True)
        HfApi().upload_folder(repo_id=repository, folder_path=folder, ignore_patterns=["*.jsonl"])
    except Exception as error:  # whatever the hub's client raises, the folder is there to try again
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is saved, but {repository} could not be pushed: {reason}") from error
    notice(f"Pushed to {repository}.")


def own_answers(base, arguments: argparse.Namespace) -> Path:
    """The file of the model's own answers, made first; what is there already of a cut run is kept."""
    from tqdm import tqdm

    from mars_demo import distillation

    if arguments.conversations < 1:
        raise ValueError(f"--conversations must be at least 1, not {arguments.conversations}.")
    batch = 32 if base.model.device.type == "cpu" else 512
    path = arguments.output / "self.jsonl"
    prompts = (
        distillation.prompts_from(arguments.prompts)
        if arguments.prompts
        else distillation.self_prompts(base, batch)
    )
    with tqdm(total=arguments.conversations, unit="answer", desc=path.name) as bar:
        for held in distillation.write(path, base, prompts, arguments.conversations, batch):
            bar.update(held - bar.n)
    return path


def run_evaluate(arguments: argparse.Namespace) -> None:
    from mars_demo import card, checkpoints, evaluation, tasks

    taus = numbers(arguments.taus)
    names = arguments.tasks.split(",") if arguments.tasks else None
    for name in names or ():
        tasks.held_out(name, 1)  # an unknown one is refused before the others have been answered
    if arguments.output:
        check_writable(arguments.output)
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
        folder = arguments.output.parent
        if arguments.output.name == "results.json" and (folder / "recipe.json").exists():
            card.write(folder)


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
    warnings.showwarning = lambda message, *_: notice(f"Note: {message}")
    try:
        arguments.run(arguments)
    except (ValueError, OSError) as error:
        notice(f"mars_demo {arguments.command}: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        notice("Stopped.")
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
