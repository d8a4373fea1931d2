"""The command line: a module per command, imported when that command runs."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from mars_demo import __version__
from mars_demo.cli.output import notice
from mars_demo.core.parser import Parser

# Set before transformers is imported, to keep standard error for this program's progress and notices.
if not sys.stderr.isatty():
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

PROGRAM = "python -m mars_demo"
COMMANDS = {  # for each command: what it does, and the arguments of an example
    "generate": ("answer a prompt", '"Sort 31, 47 and 15" --model mars-tiny --mode lossless'),
    "chat": ("chat with a model in the terminal", "--model mars-smollm2-135m --tau 0.9"),
    "serve": ("run an OpenAI-compatible HTTP endpoint", "--model mars-tiny --port 8000"),
    "train": ("train a checkpoint further", "--base ar-tiny --minutes 10 --output-dir my-model"),
    "evaluate": (
        "measure accuracy and tokens per forward on held-out prompts",
        "--model mars-tiny --mode mars --taus 1,0.95,0.8 --output results.json",
    ),
    "models": ("describe checkpoints without loading their weights", "mars-tiny my-model"),
    "recipe": ("train the bundled models from scratch", "tiny --output my-models"),
    "record": ("record the page's runs or trainings again", "runs bus table"),
    "page": (
        "write a record as one HTML file that replays without a server",
        "run.jsonl --output run.html",
    ),
    "export": (
        "write a checkpoint as ONNX, for browsers, or safetensors, for transformers and vLLM",
        "mars-tiny --format safetensors --output exported",
    ),
    "space": (
        "write the app or the gallery as a Space for the Hugging Face hub",
        "--hardware cpu-basic --model mars-tiny --output my-space",
    ),
}


def parser(command: str | None = None) -> Parser:
    """Return the parser of all commands, with the options of `command`."""
    main_parser = Parser(prog="mars_demo", description="Multi-token decoding, recorded forward by forward.")
    main_parser.add_argument("--version", action="version", version=f"mars_demo {__version__}")
    commands = main_parser.add_subparsers(dest="command", required=True)
    for name, (about, example) in COMMANDS.items():
        module = import_module(f"mars_demo.cli.{name}") if name == command else None
        added = commands.add_parser(
            name,
            help=about,
            description=f"{about[0].upper()}{about[1:]}.",
            epilog=f"example:\n  {PROGRAM} {name} {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            parents=getattr(module, "PARENTS", ()),
        )
        if module:
            module.register(added)
            added.set_defaults(run=module.run)
    return main_parser


def main(argv: Sequence[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    command = next((word for word in argv if word in COMMANDS), None)
    arguments = parser(command).parse_args(argv)
    warnings.showwarning = lambda message, *_: notice(f"Note: {message}")
    try:
        arguments.run(arguments)
    except (ValueError, OSError) as error:
        notice(f"mars_demo {arguments.command}: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        notice("Stopped.")
        return 130
    except (MemoryError, RuntimeError) as error:
        from mars_demo.models.memory import MEMORY, is_short  # the command has imported torch already

        if not is_short(error):
            raise
        notice(f"mars_demo {arguments.command}: {MEMORY}")
        return 2
    return 0
