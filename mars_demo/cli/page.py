"""`page`: write a record as one HTML file that replays without a server."""

import argparse
from pathlib import Path

from mars_demo.cli.output import check_writable, notice
from mars_demo.static.standalone.replay import replay_page


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", type=Path, metavar="FILE.jsonl", help="a record from `generate --trace`")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.html", help="file to create")


def run(arguments: argparse.Namespace) -> None:
    check_writable(arguments.output)
    try:
        record = arguments.record.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{arguments.record} is not a record: it is not UTF-8 text.") from error
    arguments.output.write_text(replay_page(record), encoding="utf-8")
    notice(f"{arguments.output} replays the record in any browser.")
