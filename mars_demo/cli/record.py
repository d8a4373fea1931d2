"""`record`: record the page's runs or trainings again."""

import argparse

from mars_demo.cli.output import notice
from mars_demo.core.assets import ASSETS, read_json
from mars_demo.evaluation.recorded_runs import record_run
from mars_demo.evaluation.trainings import record_training

KINDS = {"runs": record_run, "trainings": record_training}  # by their folders in `assets`


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=KINDS, help="what to record")
    parser.add_argument("ids", nargs="*", metavar="ID", help="its id (default: all)")


def run(arguments: argparse.Namespace) -> None:
    entries = {entry["id"]: entry for entry in read_json(arguments.kind, "index.json")}
    chosen = arguments.ids or list(entries)
    if unknown := [id for id in chosen if id not in entries]:
        raise ValueError(f"Unknown recording {unknown[0]!r}. Choose from {', '.join(entries)}.")
    for id in chosen:
        text = "".join(KINDS[arguments.kind](entries[id]))
        (ASSETS / arguments.kind / f"{id}.jsonl").write_text(text, encoding="utf-8")
        notice(f"Recorded {id}.")
