"""A server that is slow to answer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

CALLS = re.compile("gradio_api/(run|queue/join)")


@contextmanager
def unanswered(page: Page) -> Iterator[None]:
    """Hold requests of the page to its handlers, and send them at the end in reverse order."""
    waiting = []
    page.route(CALLS, lambda route: waiting.append(route))
    yield
    for route in reversed(waiting):
        route.continue_()
    page.unroute(CALLS)
