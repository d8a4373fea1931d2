"""`space`: write the app as a Space for the Hugging Face hub."""

import argparse
from pathlib import Path

from mars_demo.cli.output import notice


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder that is made")
    parser.add_argument(
        "--hardware",
        required=True,
        metavar="NAME",
        help="as the hub calls it: cpu-basic, zero-a10g, t4-small, …",
    )
    parser.add_argument(
        "--model",
        action="append",
        default=[],
        dest="models",
        metavar="NAME",
        help="a model to serve: a bundled name, folder, GGUF file or hub id; may be given several times, "
        "the first one is the page's default",
    )
    parser.add_argument("--only", action="store_true", help="leave out bundled models that are not named")
    parser.add_argument("--push", metavar="OWNER/NAME", help="also upload it to the hub")


def run(arguments: argparse.Namespace) -> None:
    from mars_demo.export import space
    from mars_demo.export.push import push

    wanted = space.Space(arguments.hardware, arguments.models, arguments.only)
    space.write(wanted, arguments.output)
    notice(f"{arguments.output} is a Space for {arguments.hardware}.")
    if arguments.push:
        kind = {"repo_type": "space", "space_sdk": "gradio", "space_hardware": arguments.hardware}
        notice(f"Pushed to {push(arguments.output, arguments.push, **kind)}.")
