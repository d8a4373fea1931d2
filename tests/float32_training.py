"""`python -m mars_demo train` in float32, so that runs on any number of processes have the same losses.

With STOP_AFTER the command is interrupted after so many steps, as by Ctrl-C between two saved states.
"""

import os
import sys

from mars_demo import cli
from mars_demo.training import loop

STOP_AFTER = int(os.environ.get("STOP_AFTER", 0))
take_step = loop.Trainer.step


def step(self, number, *more):
    if STOP_AFTER and number > STOP_AFTER:
        raise KeyboardInterrupt
    return take_step(self, number, *more)


if __name__ == "__main__":
    loop.Trainer.step = step
    loop.multiplies_bfloat16 = lambda device: False
    sys.exit(cli.main(["train", *sys.argv[1:]]))
