"""`space`: write the app as a Space for the Hugging Face hub."""

import argparse
from pathlib import Path

from mars_demo.cli.output import notice
from mars_demo.export import space
from mars_demo.export.push import push


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")
    parser.add_argument(
        "--hardware",
        required=True,
        metavar="NAME",
        help="the hub's name of the hardware: cpu-basic, zero-a10g, t4-small, …",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        dest="models",
        metavar="NAME",
        help="bundled name, folder, GGUF file or hub id of a model; repeatable, the first is the default",
    )
    parser.add_argument("--only", action="store_true", help="leave out other bundled models")
    parser.add_argument("--push", metavar="OWNER/NAME", help="also upload it to the hub")


def run(arguments: argparse.Namespace) -> None:
    described = space.Space(arguments.hardware, arguments.models, arguments.only)
    space.write(described, arguments.output)
    notice(f"{arguments.output} is a Space for {arguments.hardware}.")
    if arguments.push:
        kind = {"repo_type": "space", "space_sdk": "gradio", "space_hardware": arguments.hardware}
        notice(f"Pushed to {push(arguments.output, arguments.push, **kind)}.")
