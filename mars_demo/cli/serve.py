"""`serve`: run an OpenAI-compatible HTTP endpoint."""

import argparse
import sys
from contextlib import suppress

from mars_demo.cli import loading
from mars_demo.cli.output import notice
from mars_demo.core import background, limits
from mars_demo.core.names import DENSE, DTYPE, bundled, locate
from mars_demo.models.pool import Pool
from mars_demo.serving.endpoint import PREFIX, Endpoint, WebServer, listening


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
    parser.add_argument(
        "--device", metavar="DEVICE", help="cpu, cuda, cuda:N or mps (default: the fastest available)"
    )
    parser.add_argument("--dtype", **DTYPE)
    parser.add_argument(
        "--engine",
        choices=("own", "vllm"),
        default="own",
        help="own: requests take turns; vllm: one model for many users, in batches (default: own)",
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="HOST", help="interface to listen on")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port; 0: any free one")
    parser.add_argument(
        "--allow-origin",
        action="append",
        default=[],
        dest="origins",
        metavar="ORIGIN",
        help="a site whose pages may ask from a browser, such as https://example.org; repeatable; *: all "
        "(default: none)",
    )
    parser.add_argument(
        "--size",
        type=int,
        metavar="N",
        help="vllm: requests that share a forward (default: 64)",
    )
    parser.add_argument(
        "--tau",
        metavar="T|LOW-HIGH",
        help="vllm: τ of requests that name none; LOW-HIGH: lower under load (default: lossless)",
    )
    parser.add_argument("more", nargs="*", metavar="-- FLAGS", help="further flags of vLLM")


def run(arguments: argparse.Namespace) -> None:
    if not 0 <= arguments.port <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, not {arguments.port}.")
    if arguments.engine == "vllm":
        sys.exit(_run_vllm(arguments))
    if arguments.more or {arguments.size, arguments.tau} != {None}:
        raise ValueError("Only --engine vllm takes --size, --tau and further flags.")
    limits.check_limits()
    names = arguments.models or bundled()
    for name in names:
        locate(name)  # fail now and not at the first request
    pool = Pool(names, arguments.device, arguments.dtype, arguments.block_size)
    server = WebServer(Endpoint(pool), arguments.host, arguments.origins)
    with listening(arguments.host, arguments.port) as bound:
        background.start(pool.load_all)
        url = f"http://{arguments.host}:{bound.getsockname()[1]}{PREFIX}"
        notice(f"Serving {', '.join(pool.names())} at {url}. Press Ctrl-C to stop.")
        server.run(sockets=[bound])


def _run_vllm(arguments: argparse.Namespace) -> int:
    """Run vLLM's server; return its exit status."""
    from mars_demo.serving import vllm_server  # imports transformers

    size = 64 if arguments.size is None else arguments.size
    if size < 1:
        raise ValueError(f"--size must be at least 1, not {size}.")
    if len(arguments.models or ()) > 1:
        raise ValueError("vLLM serves one model per process; name one --model.")
    if arguments.device is not None or arguments.dtype not in DENSE:
        raise ValueError(f"vLLM finds the device itself; its --dtype is one of {', '.join(DENSE)}.")
    if arguments.origins:
        raise ValueError("vLLM names origins by a flag of its own, after --: --allowed-origins.")
    own = ["--host", arguments.host, "--port", str(arguments.port), "--dtype", arguments.dtype]
    low, high = _tau(arguments.tau) if arguments.tau else (None, None)
    return vllm_server.run(
        (arguments.models or bundled())[0],
        arguments.block_size,
        size,
        low if low == high else [low, high],
        [*own, *arguments.more],
    )


def _tau(text: str) -> tuple[float, float]:
    """Return the bounds of a range such as 0.8-1; those of a number are equal."""
    with suppress(ValueError):
        low, high = map(float, text.split("-") if "-" in text else (text, text))
        if 0 <= low <= high <= 1:
            return low, high
    raise ValueError(f"--tau must be a number from 0 to 1, or a range such as 0.8-1, not {text!r}.")
