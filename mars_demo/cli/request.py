"""The command-line options of a request."""

import argparse
from collections.abc import Iterable
from dataclasses import fields
from typing import get_args

from mars_demo.cli import loading
from mars_demo.core.modes import MODES
from mars_demo.core.names import DTYPE
from mars_demo.decoding.request import PARAMETERS, Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.load import load_checkpoint

OWN = ("mode", "tau", "criterion", "window", "max_new_tokens", "linear")  # the fields of a `Request`
SAMPLING = tuple(field.name for field in fields(Sampling))


def add_decoding(parser: argparse.ArgumentParser, modes: Iterable[str] = MODES, tau: bool = True) -> None:
    """Add the decoding options that all commands share."""
    _add(parser, "mode", choices=list(modes))
    if tau:
        _add(parser, "tau")
    _add(parser, "criterion")
    _add(parser, "window")


def _add(parser: argparse.ArgumentParser, name: str, **more: object) -> None:
    """Add the option of a parameter; one of sampling stays None unless given: greedy is the default."""
    parameter = PARAMETERS[name]
    kind, values = parameter.metadata["kind"], get_args(parameter.metadata["kind"])
    if kind is bool:
        settings = {"action": argparse.BooleanOptionalAction}
    elif isinstance(values[0], str):
        settings = {"choices": values}
    else:
        settings = {"type": values[0], "metavar": "N" if values[0] is int else "X"}
    explained, default = parameter.metadata["help"], parameter.default
    if name in SAMPLING:
        explained, default = f"{explained} (when sampling, default: {default})", None
    option = f"--{name.replace('_', '-')}"
    parser.add_argument(option, **settings | {"default": default, "help": explained} | more)


def alone() -> list[str]:
    """Return the modes that need no second model."""
    return [name for name, mode in MODES.items() if not mode.needs_draft]


def add_options(parser: argparse.ArgumentParser) -> None:
    loading.register(parser)
    parser.add_argument("--dtype", **DTYPE)
    add_decoding(parser)
    parser.add_argument("--draft", metavar="NAME", help="draft model, for --mode speculative")
    for name in ("linear", *SAMPLING, "max_new_tokens"):
        _add(parser, name)


def request_of(arguments: argparse.Namespace, raw: bool = False) -> Request:
    """Return the arguments as a request."""
    draft = load_checkpoint(arguments.draft, None, arguments.dtype) if arguments.draft else None
    given = {name: getattr(arguments, name) for name in OWN}
    return Request(**given, raw=raw, draft=draft, sampling=sampling_of(arguments), adaptive=True)


def sampling_of(arguments: argparse.Namespace) -> Sampling | None:
    """Return the sampling settings; None for greedy decoding."""
    given = {name: value for name in SAMPLING if (value := getattr(arguments, name)) is not None}
    return Sampling(**given) if given else None
