"""`serve`: run an OpenAI-compatible HTTP endpoint."""

import argparse

from mars_demo import limits
from mars_demo.cli import loading
from mars_demo.cli.output import notice
from mars_demo.models.names import DTYPE, bundled, locate
from mars_demo.models.pool import Pool
from mars_demo.serving.endpoint import PREFIX
from mars_demo.serving.servers import Servers
from mars_demo.serving.web_server import WebServer, listening


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model",
        action="append",
        dest="models",
        metavar="NAME",
        help=f"a model to serve: {loading.NAMES}; repeatable (default: all bundled)",
    )
    parser.add_argument(
        "--block-size",
        type=int,
        metavar="B",
        help="block size of MARS models that do not say it themselves",
    )
    parser.add_argument("--device", metavar="DEVICE", help="cpu, cuda, cuda:N or mps")
    parser.add_argument("--dtype", **DTYPE)
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="default: %(default)s")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--size", type=int, default=8, metavar="N", help="requests that share a forward (default: 8)"
    )


def run(arguments: argparse.Namespace) -> None:
    if arguments.size < 1:
        raise ValueError(f"--size must be at least 1, not {arguments.size}.")
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, not {arguments.port}.")
    limits.check()
    names = arguments.models or bundled()
    for name in names:
        locate(name)  # fail now and not at the first request
    pool = Pool(names, arguments.device, arguments.dtype, arguments.block_size)
    with listening(arguments.host, arguments.port) as bound:
        url = f"http://{arguments.host}:{bound.getsockname()[1]}{PREFIX}"
        notice(f"Serving {', '.join(pool.names())} at {url}. Press Ctrl-C to stop.")
        WebServer(Servers(pool, arguments.size)).run(sockets=[bound])
