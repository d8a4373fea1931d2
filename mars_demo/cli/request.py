"""The command-line options of a request."""

import argparse
from collections.abc import Iterable
from dataclasses import fields

from mars_demo.cli import loading
from mars_demo.decoding.acceptance import CRITERIA
from mars_demo.decoding.request import Request
from mars_demo.decoding.sampling import Sampling
from mars_demo.models.names import DTYPE
from mars_demo.modes import MODES


def add_decoding(parser: argparse.ArgumentParser, modes: Iterable[str] = MODES, tau: bool = True) -> None:
    """Add the decoding options that all commands share."""
    parser.add_argument("--mode", choices=list(modes), help="default: the checkpoint's best")
    if tau:
        parser.add_argument(
            "--tau",
            type=float,
            default=0.95,
            help="accept slots while score ≥ τ (default: 0.95)",
        )
    parser.add_argument("--criterion", choices=CRITERIA, default="probability", help="how slots are scored")
    parser.add_argument("--window", type=int, metavar="N", help="slots per forward")


def alone() -> list[str]:
    """Return the modes that need no second model."""
    return [name for name, mode in MODES.items() if not mode.needs_draft]


def add_options(parser: argparse.ArgumentParser) -> None:
    loading.register(parser)
    parser.add_argument("--dtype", **DTYPE)
    add_decoding(parser)
    parser.add_argument(
        "--linear",
        action=argparse.BooleanOptionalAction,
        help="linear verification in lossless, with 2K+1 positions per forward (default: on a CPU)",
    )
    parser.add_argument("--draft", metavar="NAME", help="draft model, for --mode speculative")
    parser.add_argument("--temperature", type=float, metavar="T", help="sampling temperature")
    parser.add_argument(
        "--top-p", type=float, metavar="P", help="sample from the smallest set of tokens with probability P"
    )
    parser.add_argument("--top-k", type=int, metavar="K", help="sample from the K most probable tokens")
    parser.add_argument("--seed", type=int, metavar="N", help="seed of sampling (default: 0)")
    parser.add_argument("--max-new-tokens", type=int, default=256, metavar="N")


def request_of(arguments: argparse.Namespace, raw: bool = False):
    """Return the arguments as a request."""
    return Request(
        mode=arguments.mode,
        tau=arguments.tau,
        criterion=arguments.criterion,
        window=arguments.window,
        max_new_tokens=arguments.max_new_tokens,
        raw=raw,
        linear=arguments.linear,
        draft=loading.load(arguments.draft, dtype=arguments.dtype) if arguments.draft else None,
        sampling=sampling_of(arguments),
        adaptive=True,
    )


def sampling_of(arguments: argparse.Namespace):
    """Return the sampling settings; None for greedy decoding."""
    given = {field.name: getattr(arguments, field.name) for field in fields(Sampling)}
    given = {name: value for name, value in given.items() if value is not None}
    return Sampling(**given) if given else None
