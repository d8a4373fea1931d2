"""The command line: a module per command, imported when that command runs."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from mars_demo import __version__
from mars_demo.cli.output import notice

# Set before transformers is imported, to keep standard error for this program's progress and notices.
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

COMMANDS = {
    "generate": "answer a prompt",
    "chat": "chat with a model in the terminal",
    "serve": "run an OpenAI-compatible HTTP endpoint",
    "train": "train a checkpoint further",
    "evaluate": "measure accuracy and tokens per forward on held-out prompts",
    "benchmark": "run tasks of the lm-evaluation-harness",
    "models": "describe checkpoints without loading their weights",
    "recipe": "train the bundled models from scratch",
    "record": "record the page's runs or trainings again",
    "page": "write a record as one HTML file that replays without a server",
    "gallery": "write the recorded runs and lessons as a static site",
    "export": "write a checkpoint as ONNX, for browsers, or safetensors, for transformers and vLLM",
    "space": "write the app as a Space for the Hugging Face hub",
}


class Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line, like every error of this program."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def parser(command: str | None = None) -> Parser:
    """Return the parser of all commands, with the options of `command`."""
    main_parser = Parser(prog="mars_demo", description="Multi-token decoding, recorded forward by forward.")
    main_parser.add_argument("--version", action="version", version=f"mars_demo {__version__}")
    commands = main_parser.add_subparsers(dest="command", required=True)
    for name, about in COMMANDS.items():
        added = commands.add_parser(name, help=about)
        if name == command:
            module = import_module(f"mars_demo.cli.{name}")
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
