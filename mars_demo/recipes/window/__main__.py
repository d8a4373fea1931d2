"""The commands of the window; see the package."""

import argparse
import sys
from pathlib import Path
from pkgutil import resolve_name

from mars_demo.recipes.window import machine

COMMANDS = {  # function, its arguments, help
    "rehearse": ("rehearse:rehearse", ("--machine", "--base", "--own", "--work"), "run all calls on a CPU"),
    "prepare": ("carry:prepare", ("--base", "--own"), "write the folders to carry"),
    "restore": ("carry:restore", (), "undo prepare"),
    "prove": ("prove:prove", ("--output",), "measure speed and memory on the machine"),
    "train": ("train:train", ("--left", "--output"), "train, and return the first pieces"),
    "measure": ("measure:measure", ("--output",), "measure the bundle, and return the next pieces"),
    "deliver": ("pieces:deliver", ("group", "--output"), "return a group of pieces"),
    "join": ("joined:join", ("folders", "--output"), "join the returned pieces"),
}
THERE = ("prove", "train", "measure", "deliver")  # the commands of the lent machine
ARGUMENTS = {
    "--machine": {"type": Path, "help": "Python of an environment like the machine's"},
    "--base": {"help": "GGUF file, folder or bundled name"},
    "--own": {"type": Path, "help": "JSONL with the base's own answers, or the same as .xz"},
    "--work": {"type": Path, "help": "a new folder"},
    "--left": {"type": float, "help": "seconds for which the machine is still lent"},
    "--output": {"type": Path, "help": "the folder that is returned"},
    "group": {"type": int, "help": "number of the group, from 0"},
    "folders": {"type": Path, "nargs": "+", "help": "the folders with the returned files"},
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mars_demo.recipes.window")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (_, arguments, about) in COMMANDS.items():
        added = commands.add_parser(name, help=about)
        for argument in arguments:
            required = {"required": True} if argument.startswith("--") else {}
            added.add_argument(argument, **required, **ARGUMENTS[argument])
    given = vars(parser.parse_args())
    command = given.pop("command")
    if command in THERE:
        machine.set_up()
    if command == "deliver":
        given["folder"] = machine.PIECES
    try:
        # Imported only now, because the setup installs packages.
        resolve_name(f"mars_demo.recipes.window.{COMMANDS[command][0]}")(**given)
    except (ValueError, OSError) as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
