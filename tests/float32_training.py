"""`python -m mars_demo train` in float32, so that runs on any number of processes have the same losses.

With FAIL_AFTER=STEP the command fails after that step. FAILURE is `interrupt`, as by a second Ctrl-C, or a
limit that it then meets: `RLIMIT_AS`, memory, or `RLIMIT_FSIZE`, the size of files.
"""

import os
import resource
import sys

import psutil

from mars_demo import cli
from mars_demo.training.steps import Steps

FAIL_AFTER, FAILURE = int(os.environ.get("FAIL_AFTER", 0)), os.environ.get("FAILURE")
MORE = 2**20  # bytes
begin = Steps.on_step_begin


def on_step_begin(self, args, state, control, **more):
    if FAIL_AFTER and state.global_step == FAIL_AFTER:
        if FAILURE == "interrupt":
            raise KeyboardInterrupt
        used = psutil.Process().memory_info().vms if FAILURE == "RLIMIT_AS" else 0
        resource.setrlimit(getattr(resource, FAILURE), (used + MORE,) * 2)
    begin(self, args, state, control, **more)


if __name__ == "__main__":
    Steps.on_step_begin = on_step_begin
    sys.exit(cli.main(["train", *sys.argv[1:], "--bf16", "false"]))
