"""`serve`: run an OpenAI-compatible HTTP endpoint."""

import argparse
from contextlib import nullcontext

from mars_demo import limits
from mars_demo.cli import loading
from mars_demo.cli.output import notice
from mars_demo.decoding.acceptance import Acceptance
from mars_demo.decoding.request import Request
from mars_demo.models.names import DTYPE, bundled, locate
from mars_demo.models.pool import Pool
from mars_demo.serving.endpoint import PREFIX
from mars_demo.serving.server import Controller
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
    parser.add_argument(
        "--tau",
        default=str(Request.tau),
        metavar="T|LOW-HIGH",
        help="τ of requests that name none (default: %(default)s); LOW-HIGH: lower the more requests wait",
    )
    parser.add_argument(
        "--replicas",
        type=int,
        metavar="N",
        help="processes per model, by Ray Serve (default: this process)",
    )
    parser.add_argument(
        "--autoscale",
        type=int,
        nargs=2,
        metavar=("MIN", "MAX"),
        help="adapt the number of replicas to the requests",
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
    with listening(arguments.host, arguments.port) as bound, _servers(arguments, names) as servers:
        url = f"http://{arguments.host}:{bound.getsockname()[1]}{PREFIX}"
        notice(f"Serving {', '.join(servers.names())} at {url}. Press Ctrl-C to stop.")
        WebServer(servers).run(sockets=[bound])


def _servers(arguments: argparse.Namespace, names: list[str]):
    """Return the context of the servers: in this process, or on replicas."""
    tau = _tau(arguments.tau)
    load = (names, arguments.device, arguments.dtype, arguments.block_size)
    if arguments.replicas is None and arguments.autoscale is None:
        return nullcontext(Servers(Pool(*load), arguments.size, tau))
    replicas = 1 if arguments.replicas is None else arguments.replicas
    least, most = arguments.autoscale or (1, 1)
    if replicas < 1 or not 1 <= least <= most:
        raise ValueError("--replicas must be at least 1, and --autoscale two numbers, 1 ≤ MIN ≤ MAX.")
    try:
        from mars_demo.serving.replicas import Plan, started  # optional: it needs Ray
    except ModuleNotFoundError as error:
        raise ValueError("Replicas need Ray Serve: pip install -r requirements-ray.txt") from error
    autoscale = tuple(arguments.autoscale) if arguments.autoscale else None
    return started(Plan(*load, arguments.size, tau, replicas, autoscale))


def _tau(text: str) -> float | Controller:
    """Return τ, or the controller of a range such as 0.8-1."""
    try:
        bounds = [float(part) for part in text.split("-")]
        low, high = bounds if len(bounds) > 1 else bounds * 2
        return Controller(low, high) if low != high else Acceptance(tau=low).threshold()
    except ValueError:
        form = "a number from 0 to 1, or a range such as 0.8-1"
        raise ValueError(f"--tau must be {form}, not {text!r}.") from None
