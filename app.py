"""MARS Demo: `python app.py` serves it, `python app.py --help` lists its options."""

import sys

from mars_demo.ui import endpoint, options
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.page import build

chosen = options.read(sys.argv[1:] if __name__ == "__main__" else [])
MODELS.serve(chosen)
demo = build()

if __name__ == "__main__":
    more = endpoint.settings() if chosen.endpoint else {}
    demo.launch(**more, server_name=chosen.host, server_port=chosen.port, share=chosen.share)
