"""A server that is slow to answer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page

ASKED = re.compile("gradio_api/(run|queue/join)")


@contextmanager
def unanswered(page: Page) -> Iterator[None]:
    """What the page asks of its handlers meanwhile reaches them afterwards, the last first."""
    waiting = []
    page.route(ASKED, lambda route: waiting.append(route))
    yield
    for route in reversed(waiting):
        route.continue_()
    page.unroute(ASKED)
