"""A running endpoint with two models, of which the first is loaded, for the tests of a module."""

import pytest
from gate import Gate
from web import client, serving

from mars_demo.models.pool import Pool
from mars_demo.serving.servers import Servers


@pytest.fixture(scope="module")
def servers():
    return Servers(Pool(["mars-tiny", "ar-tiny"], device="cpu"), size=2)


@pytest.fixture(scope="module")
def url(servers):
    with serving(servers) as url:
        messages = [{"role": "user", "content": "Hi"}]
        client(url).chat.completions.create(model="mars-tiny", messages=messages, max_tokens=1)
        yield url


@pytest.fixture(scope="module")
def server(url, servers):
    return servers._servers["mars-tiny"]


@pytest.fixture
def gate(server):
    """Hold all forwards until a test releases them."""
    gate = Gate(server.checkpoint.model.base_model, free=0)
    yield gate
    gate.remove()
