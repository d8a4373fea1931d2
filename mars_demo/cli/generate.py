"""`generate`: answer a prompt."""

import argparse
import sys
from pathlib import Path

from mars_demo.cli import loading
from mars_demo.cli.output import check_writable, figures_of, notice, printable
from mars_demo.cli.request import add_options, request_of
from mars_demo.decoding.decode import decode


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", help="the user's message")
    add_options(parser)
    parser.add_argument("--raw", action="store_true", help="skip the chat template")
    parser.add_argument("--trace", metavar="FILE", help="write the run record; - for standard output")


def run(arguments: argparse.Namespace) -> None:
    only_record = arguments.trace == "-"
    shown = printable if sys.stdout.isatty() else str  # files and pipes get the answer unchanged
    if arguments.trace and not only_record:
        check_writable(Path(arguments.trace))
    request = request_of(arguments, arguments.raw)
    model = loading.load_for(request, arguments)
    run = decode(model, arguments.prompt, request)
    if not arguments.raw:
        loading.say_raw(model)
    try:
        if only_record:
            print(run.first_line(), flush=True)
        for step in run:
            print(f"{step.line()}\n" if only_record else shown(step.text), end="", flush=True)
    except KeyboardInterrupt:
        run.close()
    if only_record:
        print(run.last_line(), flush=True)
        return
    print()
    if arguments.trace:
        Path(arguments.trace).write_text("".join(f"{line}\n" for line in run.lines()), encoding="utf-8")
    notice(figures_of(run))
