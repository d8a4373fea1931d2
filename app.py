"""MARS Demo: `python app.py` serves it, `python app.py --help` lists its options."""

import os
import sys

os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # a download with Xet could not be cancelled

from mars_demo.ui import options
from mars_demo.ui.hosting import published
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.page import build

is_program = __name__ == "__main__"  # else another server has the page
chosen = options.read(sys.argv[1:] if is_program else [])
MODELS.serve(chosen, published.NAMES if is_program and options.is_own_machine(chosen) else [])
demo = build()

if is_program:
    demo.launch(server_name=chosen.host, server_port=chosen.port, share=chosen.share)
