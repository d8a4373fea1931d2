"""The options of `app.py`."""

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import NoReturn

from mars_demo import limits
from mars_demo.models.names import DTYPE

VARIABLE = "MARS_DEMO_MODELS"


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, as on the command line of the library."""
        self.exit(2, f"{self.prog}: {message}\n")


def parser() -> Parser:
    found = Parser(
        prog="app.py",
        description="Serve MARS Demo in the browser.",
        epilog=f"Where --model is not given, the environment variable {VARIABLE} names models, separated "
        "by commas. Gradio's own environment variables, such as GRADIO_SERVER_PORT, hold too.",
    )
    add = found.add_argument
    add(
        "--model",
        action="append",
        dest="models",
        metavar="NAME",
        help="a model to serve: a hub id, a folder, a GGUF file or a bundled name; may be given several "
        "times, the first one is the page's default",
    )
    add("--only", action="store_true", help="leave out the bundled models that are not named")
    add(
        "--block-size",
        type=int,
        metavar="B",
        help="masks per block of the MARS models among them that do not say it themselves",
    )
    add("--device", metavar="DEVICE", help="cpu, cuda, cuda:N or mps (default: the fastest there is)")
    add("--dtype", **DTYPE)
    add("--host", metavar="ADDRESS", help="to listen on (default: 127.0.0.1; 0.0.0.0 for all)")
    add("--port", type=int, metavar="N", help="default: the first free one from 7860 on")
    add("--share", action="store_true", help="a public link through Gradio's servers, for a week")
    add("--endpoint", action="store_true", help="also answer chat clients, at /v1 of the same address")
    return found


def read(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> argparse.Namespace:
    """The options; `models` is a list, from the environment where none is named. Ends the process with a
    sentence if they, or the variables of `limits`, are not what they must be."""
    options = parser().parse_args(arguments)
    listed = environment.get(VARIABLE, "").split(",")
    options.models = options.models or [name.strip() for name in listed if name.strip()]
    if options.only and not options.models:
        parser().error(f"--only needs models to serve: name them with --model or in {VARIABLE}.")
    try:
        limits.check()
    except ValueError as error:
        parser().error(str(error))
    return options
