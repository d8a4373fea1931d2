"""`record`: record the page's runs or trainings again."""

import argparse

from mars_demo.cli.output import notice
from mars_demo.evaluation import recorded_runs, trainings
from mars_demo.show import recordings


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("runs", "trainings"), help="what to record")
    parser.add_argument("ids", nargs="*", metavar="ID", help="its id (default: all)")


def run(arguments: argparse.Namespace) -> None:
    runs = arguments.kind == "runs"
    source, record = (recordings, recorded_runs.record) if runs else (trainings, trainings.record)
    entries = {entry["id"]: entry for entry in source.index()}
    chosen = arguments.ids or list(entries)
    if unknown := [id for id in chosen if id not in entries]:
        raise ValueError(f"Unknown recording {unknown[0]!r}. Choose from {', '.join(entries)}.")
    for id in chosen:
        text = "".join(record(entries[id]))
        (source.FOLDER / f"{id}.jsonl").write_text(text, encoding="utf-8")
        notice(f"Recorded {id}.")
