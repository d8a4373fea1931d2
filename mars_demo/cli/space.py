"""`space`: write the app, or the gallery, as a Space for the Hugging Face hub."""

import argparse
from pathlib import Path

from mars_demo.cli import gallery
from mars_demo.cli.output import notice
from mars_demo.models.export.push import check_name, push
from mars_demo.static import space


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder to create")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument(
        "--static",
        action="store_true",
        help="the gallery, which needs no hardware: models decode in the visitor's browser",
    )
    kind.add_argument(
        "--hardware",
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
    parser.add_argument("--push", metavar="OWNER/NAME", help="also upload it to the hub, with a thumbnail")


def run(arguments: argparse.Namespace) -> None:
    check_name(arguments.push)
    if arguments.static:
        gallery.write(arguments.output, repository=arguments.push)
        kind = {"space_sdk": "static"}
    else:
        described = space.Space(arguments.hardware, arguments.models, arguments.only, arguments.push)
        space.write(described, arguments.output)
        kind = {"space_sdk": "gradio", "space_hardware": arguments.hardware}
    notice(f"{arguments.output} is a Space for {arguments.hardware or 'static pages'}.")
    if arguments.push:
        pushed = push(arguments.output, arguments.push, repo_type="space", **kind)
        notice(f"Pushed to {pushed}.")
