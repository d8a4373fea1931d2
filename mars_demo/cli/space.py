"""`space`: write the app, or the gallery, as a Space for the Hugging Face hub."""

import argparse
import re
from pathlib import Path

from huggingface_hub import HfApi

from mars_demo.cli import gallery
from mars_demo.cli.output import notice
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
    gallery.add_runtime_url(parser)
    parser.add_argument("--push", metavar="OWNER/NAME", help="also upload it to the hub, with a thumbnail")


def run(arguments: argparse.Namespace) -> None:
    if arguments.push and not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.push):
        raise ValueError(f"Name the hub's repository as OWNER/NAME, not {arguments.push!r}.")
    if arguments.static:
        gallery.write(arguments.output, arguments.runtime_url, repository=arguments.push)
        kind = {"space_sdk": "static"}
    else:
        described = space.Space(arguments.hardware, arguments.models, arguments.only, arguments.push)
        space.write(described, arguments.output)
        kind = {"space_sdk": "gradio", "space_hardware": arguments.hardware}
    notice(f"{arguments.output} is a Space for {arguments.hardware or 'static pages'}.")
    if arguments.push:
        notice(f"Pushed to {_pushed(arguments.output, arguments.push, **kind)}.")


def _pushed(folder: Path, repository: str, **settings: str) -> str:
    """Upload a Space and return its URL; `settings` apply to a new one.

    Raises:
        ValueError: if the hub rejects it or is unreachable.
    """
    try:
        url = HfApi().create_repo(repository, repo_type="space", exist_ok=True, **settings)
        HfApi().upload_folder(repo_id=repository, folder_path=folder, repo_type="space")
    except Exception as error:  # the hub's client raises many types
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise ValueError(f"{folder} is written, but {repository} could not be pushed: {reason}") from error
    return str(url)
