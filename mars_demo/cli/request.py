"""The command-line options of a request."""

import argparse
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import get_args

from mars_demo.cli import loading
from mars_demo.core.grammar import Grammar
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
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--schema", type=Path, metavar="FILE", help="answer JSON of the JSON schema in FILE")
    shape.add_argument("--regex", metavar="PATTERN", help="answer a text that matches PATTERN as a whole")
    shape.add_argument("--choice", action="append", metavar="TEXT", help="answer one of these; repeatable")


def request_of(arguments: argparse.Namespace, raw: bool = False) -> Request:
    """Return the arguments as a request."""
    given = {name: getattr(arguments, name) for name in OWN} | {"grammar": _grammar_of(arguments)}
    draft = load_checkpoint(arguments.draft, None, arguments.dtype) if arguments.draft else None
    return Request(**given, raw=raw, draft=draft, sampling=sampling_of(arguments), adaptive=True)


def _grammar_of(arguments: argparse.Namespace) -> Grammar | None:
    if arguments.schema:
        try:
            return Grammar("json", arguments.schema.read_text("utf-8"))
        except UnicodeDecodeError:
            raise ValueError(f"{arguments.schema} is not a JSON schema: it is not UTF-8 text.") from None
    if arguments.regex is not None:
        return Grammar("regex", arguments.regex)
    return Grammar.of_choices(arguments.choice) if arguments.choice else None


def sampling_of(arguments: argparse.Namespace) -> Sampling | None:
    """Return the sampling settings; None for greedy decoding."""
    given = {name: value for name in SAMPLING if (value := getattr(arguments, name)) is not None}
    return Sampling(**given) if given else None
