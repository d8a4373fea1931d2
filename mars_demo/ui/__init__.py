"""The pages: what a visitor sees of the records the decoder makes."""

import os

# Before Gradio is imported. After every event of its queue it would make a table of the last 10 000 for a
# page of its own that nobody opens, which costs each of fifty visitors more than showing them their tokens.
os.environ.setdefault("GRADIO_ANALYTICS_CACHE_FREQUENCY", "1000")
os.environ.setdefault("GRADIO_ANALYTICS_MAX_EVENTS", "100")
# A visitor whose connection is lost without a word is missed at the next sign of life.
os.environ.setdefault("GRADIO_HEARTBEAT_INTERVAL", "5")
