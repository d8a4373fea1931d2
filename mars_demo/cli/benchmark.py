"""`benchmark`: run tasks of the lm-evaluation-harness, by its own command line."""

import argparse
import subprocess
import sys
from importlib.util import find_spec

from mars_demo.cli import loading
from mars_demo.cli.request import add_decoding, alone
from mars_demo.core.assets import ASSETS
from mars_demo.core.names import DENSE, bundled
from mars_demo.models.load import outline

FOLDER = ASSETS / "harness"  # the group `paper`, the paper's six benchmarks


def register(parser: argparse.ArgumentParser) -> None:
    loading.register(parser)
    parser.add_argument(
        "--dtype", choices=DENSE, default="auto", help="auto: bfloat16 on a GPU, else float32"
    )
    add_decoding(parser, alone())
    parser.add_argument(
        "--tasks", required=True, metavar="A,B", help="tasks of the harness, or paper for the paper's six"
    )
    parser.add_argument(
        "more", nargs="*", metavar="-- FLAGS", help="further flags of lm-eval, such as --limit 40"
    )


def run(arguments: argparse.Namespace) -> None:
    if find_spec("lm_eval") is None:
        raise ValueError(
            "The lm-evaluation-harness is not installed. Install it with "
            "`pip install -r requirements-eval.txt`."
        )
    name = arguments.model or bundled()[0]
    described = outline(name, arguments.block_size)
    loading.say_raw(described)
    settings = {"pretrained": name} | {
        option: getattr(arguments, option)
        for option in ("mode", "tau", "criterion", "window", "block_size", "dtype")
    }
    given = [f"{option}={value}" for option, value in settings.items() if value is not None]
    harness = [sys.executable, "-m", "mars_demo.evaluation.harness", "run", "--model", "mars_demo"]
    template = ["--apply_chat_template"] if described.has_template else []
    tasks = ["--tasks", arguments.tasks, "--include_path", str(FOLDER), "--batch_size", "8", *template]
    sys.exit(subprocess.run([*harness, "--model_args", *given, *tasks, *arguments.more]).returncode)
