"""The command-line options of `app.py`."""

import argparse
import os
from collections.abc import Mapping, Sequence

from mars_demo.core import limits
from mars_demo.core.names import DTYPE
from mars_demo.core.parser import Parser

VARIABLE = "MARS_DEMO_MODELS"


def app_parser() -> Parser:
    parser = Parser(
        prog="app.py",
        description="Serve MARS Demo in the browser.",
        epilog=f"Without --model, the environment variable {VARIABLE} names the models, separated by "
        "commas. Gradio's own environment variables, such as GRADIO_SERVER_PORT, also apply. Example: "
        "python app.py --model mars-tiny --only",
    )
    add = parser.add_argument
    add(
        "--model",
        action="append",
        dest="models",
        metavar="NAME",
        help="a model to serve: a hub id such as Xalphinions/MARS-Qwen2.5-0.5B-blk8, a folder, a GGUF file "
        "or a bundled name; repeat it to serve several models; the first one is the page's default",
    )
    add("--only", action="store_true", help="leave out the bundled models that are not named")
    add(
        "--block-size",
        type=int,
        metavar="B",
        help="masks per block, for MARS models whose files do not state it",
    )
    add("--device", metavar="DEVICE", help="cpu, cuda, cuda:N or mps (default: the fastest available)")
    add("--dtype", **DTYPE)
    add("--host", metavar="HOST", help="interface to listen on (default: 127.0.0.1; all: 0.0.0.0)")
    add("--port", type=int, metavar="N", help="port to listen on (default: the first free one from 7860)")
    add("--share", action="store_true", help="create a public link through Gradio's servers, for a week")
    return parser


def read_options(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> argparse.Namespace:
    """Return the options, with `models` from the environment if none is named.

    Invalid options or variables of `limits` end the process with one line of text.
    """
    options = app_parser().parse_args(arguments)
    listed = environment.get(VARIABLE, "").split(",")
    options.models = options.models or [name.strip() for name in listed if name.strip()]
    if options.only and not options.models:
        app_parser().error(f"--only needs models to serve: name them with --model or in {VARIABLE}.")
    try:
        limits.check_limits()
    except ValueError as error:
        app_parser().error(str(error))
    return options
