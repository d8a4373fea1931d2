"""The Gradio app: pages that draw the decoder's records."""

import os
from contextlib import suppress

with suppress(ImportError):  # not installed outside of Spaces
    import spaces  # noqa: F401  before torch, which it patches

# Set before Gradio is imported. By default, after every event of its queue, Gradio tabulates the last
# 10 000 events for its analytics page. With fifty visitors, that costs more than showing them their tokens.
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
# A lost connection is noticed at the next heartbeat.
os.environ.setdefault("GRADIO_HEARTBEAT_INTERVAL", "5")
