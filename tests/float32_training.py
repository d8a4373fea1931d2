"""`python -m mars_demo train` in float32, so that runs on any number of processes have the same losses.

With STOP_AFTER the command is interrupted after so many steps, as by a second Ctrl-C within a step.
"""

import os
import sys

from mars_demo import cli
from mars_demo.training.steps import Steps

STOP_AFTER = int(os.environ.get("STOP_AFTER", 0))
begin = Steps.on_step_begin


def on_step_begin(self, args, state, control, **more):
    if STOP_AFTER and state.global_step == STOP_AFTER:
        raise KeyboardInterrupt
    begin(self, args, state, control, **more)


if __name__ == "__main__":
    Steps.on_step_begin = on_step_begin
    sys.exit(cli.main(["train", *sys.argv[1:], "--set", "bf16=false"]))
