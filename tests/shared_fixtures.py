"""Fixtures of all tests: a browser, the bundled checkpoints, random models and a running endpoint."""

import shutil

import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from gate import Gate
from playwright.sync_api import sync_playwright
from random_models import ARCHITECTURES, random_model
from transformers import AutoTokenizer
from web import serving

from mars_demo.core.assets import ASSETS
from mars_demo.models.checkpoint import wrap
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.models.pool import Pool
from mars_demo.serving.endpoint import Endpoint
from mars_demo.ui.hosting.registry import MODELS


@pytest.fixture(autouse=True)
def unchanged_state():
    """Restore process-wide state: served models, accelerate state and default dtype."""
    models, dtype = dict(vars(MODELS)), torch.get_default_dtype()
    yield
    vars(MODELS).update(models)
    for state in (AcceleratorState, PartialState, GradientState):
        state._reset_state()
    torch.set_default_dtype(dtype)


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(ASSETS / "mars-tiny", trust_remote_code=False)


@pytest.fixture(scope="session")
def mars_tiny():
    return load_checkpoint("mars-tiny", device="cpu")


@pytest.fixture(scope="session")
def ar_tiny():
    return load_checkpoint("ar-tiny", device="cpu")


@pytest.fixture(scope="session")
def exported(tmp_path_factory, mars_tiny):
    """Return a folder with mars-tiny as a trained checkpoint is saved."""
    folder = tmp_path_factory.mktemp("exported")
    save_checkpoint(mars_tiny.model, mars_tiny.tokenizer, folder, mars_tiny.block_size)
    return folder


@pytest.fixture(scope="session", params=ARCHITECTURES)
def random_checkpoint(request, tokenizer):
    """Return a random MARS checkpoint of each architecture; its end token is improbable."""
    return wrap(request.param, random_model(request.param, tokenizer), tokenizer)


@pytest.fixture(scope="session")
def checkpoint(tokenizer):
    """Return a random MARS checkpoint with room for longer texts."""
    return wrap("random", random_model("llama", tokenizer, context=256), tokenizer)


@pytest.fixture(scope="module")
def endpoint():
    return Endpoint(Pool(["mars-tiny", "ar-tiny"], device="cpu"))


@pytest.fixture(scope="module")
def url(endpoint):
    """Yield the URL of an endpoint with two models, of which the first is loaded."""
    endpoint.pool.load()
    with serving(endpoint) as url:
        yield url


@pytest.fixture
def gate(url, endpoint):
    """Hold all forwards until a test releases them."""
    gate = Gate(endpoint.pool.load().model.base_model, free=0)
    yield gate
    gate.remove()
