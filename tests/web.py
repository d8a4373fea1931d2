"""The endpoint's web server in a thread of the test's own process, so that a test can look at what it
serves."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, sleep

from mars_demo.serving.servers import Servers
from mars_demo.serving.web_server import WebServer, listening

HANG_GUARD = 300  # seconds


@contextmanager
def serving(servers: Servers) -> Iterator[str]:
    """Run the server and yield its URL."""
    with listening("127.0.0.1", 0) as place:
        server = WebServer(servers)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [place]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{place.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(HANG_GUARD)
        assert not thread.is_alive()


def until(condition: Callable[[], bool], seconds: float = HANG_GUARD) -> None:
    """Wait for something that another thread does."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "it did not happen"
        sleep(0.005)
