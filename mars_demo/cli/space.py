"""`space`: write the app, or the gallery, as a Space for the Hugging Face hub."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from huggingface_hub import HfApi

from mars_demo.cli.output import notice
from mars_demo.models.load import load_checkpoint
from mars_demo.static import live, space
from mars_demo.static.live.runtime import MissingLibraries
from mars_demo.ui import gallery


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
    if arguments.push and not re.fullmatch(r"[\w.-]+/[\w.-]+", arguments.push):
        raise ValueError(f"Name the hub's repository as OWNER/NAME, not {arguments.push!r}.")
    if arguments.static:
        write_gallery(arguments.output, repository=arguments.push)
        kind = {"space_sdk": "static"}
    else:
        described = space.Space(arguments.hardware, arguments.models, arguments.only, arguments.push)
        space.write_space(described, arguments.output)
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


def write_gallery(
    output: Path,
    models: Sequence[str] = live.MODELS,
    repository: str | None = None,
) -> None:
    """Write the gallery; without the live page, and with a notice, if its libraries cannot be had.

    models: the names of the models that decode on the live page.
    repository: the OWNER/NAME of the Space, if it has one already.
    """
    gallery.check_new(output)
    with TemporaryDirectory() as folder:
        files = Path(folder)
        try:
            size = live.collect(files, (load_checkpoint(name, None, "float32") for name in models))
        except MissingLibraries as error:
            notice(f"No live page: {error}")
            gallery.write_pages(output, None, repository)
            return
        notice(f"The live page has {size / 1e6:.0f} MB with {' and '.join(models)}.")
        gallery.write_pages(output, files, repository)
