"""The argument parser of this program."""

import argparse
from typing import Any, NoReturn


class Parser(argparse.ArgumentParser):
    """An argument parser with errors of one line, like every error of this program.

    The help of an option ends with its default.
    """

    def add_argument(self, *names: str, **settings: Any) -> argparse.Action:
        """Add an argument, and its default to its help unless it is there already."""
        text, default = settings.get("help") or "", settings.get("default")
        is_shown = default not in (None, [], "", argparse.SUPPRESS) and default is not False
        if is_shown and "default:" not in text:
            settings["help"] = f"{text} (default: %(default)s)"
        return super().add_argument(*names, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")
