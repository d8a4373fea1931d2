"""`chat`: chat with a model in the terminal."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import suppress

from mars_demo.cli import loading
from mars_demo.cli.output import figures_of, notice, printable
from mars_demo.cli.request import add_options, request_of
from mars_demo.decoding.conversation import Conversation
from mars_demo.decoding.matcher import Matcher

NEW = "/new"
HELP = f"{NEW} starts a new conversation, Ctrl-C stops an answer, Ctrl-D ends."


def register(parser: argparse.ArgumentParser) -> None:
    add_options(parser)
    parser.add_argument("--system", default="", metavar="TEXT", help="system message")
    parser.description += f" It reads a prompt per line from standard input.\n{HELP}"


def run(arguments: argparse.Namespace) -> None:
    request = request_of(arguments)
    checkpoint = loading.load_for(request, arguments)
    if request.grammar:
        Matcher(checkpoint, request.grammar)  # an invalid one ends the command instead of every answer
    conversation = Conversation(checkpoint, request, arguments.system)
    if sys.stdin.isatty():
        notice(f"{checkpoint.name}, {request.fitted(checkpoint).mode}. {HELP}")
    for prompt in prompts():
        if prompt == NEW:
            conversation = Conversation(checkpoint, request, arguments.system)
            continue
        try:
            answer(conversation, prompt)
        except ValueError as error:
            notice(f"{error} {NEW} starts a new conversation.")


def prompts() -> Iterator[str]:
    """Yield the lines of standard input that are not blank."""
    if sys.stdin.isatty():
        with suppress(ImportError):  # not on Windows
            import readline  # noqa: F401 - line editing for `input`
    while True:
        try:
            line = input("> " if sys.stdin.isatty() else "").strip()
        except EOFError:
            return
        if line:
            yield line


def answer(conversation, prompt: str) -> None:
    """Stream an answer, and print its figures on standard error."""
    run = conversation.ask(prompt)
    try:
        for step in run:
            print(printable(step.text), end="", flush=True)
    except KeyboardInterrupt:
        run.close()
    print(flush=True)
    settings = run.settings
    cached = f"{settings.cached_tokens} of {settings.prompt_tokens} prompt tokens from the cache"
    notice(f"{figures_of(run)}, {cached}")
