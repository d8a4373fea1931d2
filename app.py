"""MARS Demo: `python app.py` serves it, `python app.py --help` lists its options."""

import sys

from mars_demo.ui import options
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.page import build

is_program = __name__ == "__main__"  # else another server has the page
chosen = options.read_options(sys.argv[1:] if is_program else [])
MODELS.serve(chosen)
demo = build()

if is_program:
    demo.launch(server_name=chosen.host, server_port=chosen.port, share=chosen.share)
