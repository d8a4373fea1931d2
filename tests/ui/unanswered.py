"""A server that is slow to answer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

CALLS = re.compile("gradio_api/(run|queue/join)")


@contextmanager
def unanswered(page: Page) -> Iterator[None]:
    """Hold the page's calls of its handlers; afterwards, let them through, the last first."""
    waiting = []
    page.route(CALLS, lambda route: waiting.append(route))
    yield
    for route in reversed(waiting):
        route.continue_()
    page.unroute(CALLS)
