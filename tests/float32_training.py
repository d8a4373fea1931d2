"""`python -m mars_demo train` in float32, so that runs on any number of processes have the same losses.

With FAIL_AFTER=STEP the command fails after that step. FAILURE is `interrupt`, as by a second Ctrl-C, or
`disk`, a limit on the size of files that the next state exceeds.
"""

import os
import resource
import sys

from mars_demo import cli
from mars_demo.training.steps import Steps

FAIL_AFTER, FAILURE = int(os.environ.get("FAIL_AFTER", 0)), os.environ.get("FAILURE")
begin = Steps.on_step_begin


def on_step_begin(self, args, state, control, **more):
    if FAIL_AFTER and state.global_step == FAIL_AFTER:
        if FAILURE == "interrupt":
            raise KeyboardInterrupt
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**20,) * 2)
    begin(self, args, state, control, **more)


if __name__ == "__main__":
    Steps.on_step_begin = on_step_begin
    sys.exit(cli.main(["train", *sys.argv[1:], "--bf16", "false"]))
