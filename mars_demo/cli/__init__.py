"""The command line: one file per command. None of them imports torch before its arguments are known."""

import argparse
import os
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn

from mars_demo.cli.output import notice

# Read before transformers is imported: standard error is for this program's own progress and notices.
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

NAMES = "generate chat serve train evaluate benchmark models recipe record page gallery space".split()
COMMANDS = {name: import_module(f"mars_demo.cli.{name}") for name in NAMES}


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, like every other complaint of this program."""
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    main_parser = Parser(prog="mars_demo", description="Multi-token decoding, recorded forward by forward.")
    commands = main_parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        command.register(commands.add_parser(name, help=command.__doc__.partition(":")[2].strip(" .\n")))
    return main_parser


def main(argv: Sequence[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    warnings.showwarning = lambda message, *_: notice(f"Note: {message}")
    try:
        COMMANDS[arguments.command].run(arguments)
    except (ValueError, OSError) as error:
        notice(f"mars_demo {arguments.command}: {' '.join(str(error).split())}")
        return 2
    except KeyboardInterrupt:
        notice("Stopped.")
        return 130
    except (MemoryError, RuntimeError) as error:
        from mars_demo.models.memory import MEMORY, is_short  # imports torch, which the command has done

        if not is_short(error):
            raise
        notice(f"mars_demo {arguments.command}: {MEMORY}")
        return 2
    return 0
