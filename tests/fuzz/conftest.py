"""The app and the endpoint in this process, and checks after each test."""

import json
import logging
import re
from dataclasses import replace

import pytest
from service import KNOWN, App, Client
from web import serving

from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.pool import Pool
from mars_demo.serving.endpoint import Endpoint
from mars_demo.ui import options
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.page import build


@pytest.fixture(scope="package")
def app():
    MODELS.serve(options.read_options(["--only", "--model", "mars-tiny", "--model", "ar-tiny"]))
    demo = build()
    demo.launch(prevent_thread_lock=True, quiet=True)
    # Without costs, windows do not depend on the load of the machine.
    MODELS.member("mars-tiny").checkpoint = replace(MODELS.load(), costs=None)
    yield App(demo.local_url.rstrip("/"))
    demo.close()


@pytest.fixture(scope="package")
def endpoint():
    """Yield a client of the endpoint of one model."""
    with serving(Endpoint(Pool(["mars-tiny"], device="cpu"))) as url:
        yield Client(url)


@pytest.fixture(autouse=True)
def service(app, mars_tiny, caplog, capfd):
    """Check after each test that other visitors get their own answers and the log has no sent text."""
    capfd.readouterr()
    with caplog.at_level(logging.WARNING, "mars_demo"):
        yield
    request = Request("mars", KNOWN["tau"], max_new_tokens=KNOWN["max_new_tokens"])
    answer = app.generate(json.dumps({"data": [*KNOWN.values()]}).encode())
    assert answer == decode(mars_tiny, KNOWN["prompt"], request).finish().text
    assert not re.search(r"^(Traceback \(most|FORGED)", "".join(capfd.readouterr()), re.MULTILINE)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("mars_demo")]
    assert not any("\n" in line for line in lines)
