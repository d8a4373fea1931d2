"""Fixtures of all tests: a browser, the bundled checkpoints, random models of each architecture."""

import os
import shutil
import signal

# Set before transformers and gradio are imported: no test uses a hub or sends analytics.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# Tests neither measure forward costs nor read measured ones, unless they set a cache folder.
os.environ["MARS_DEMO_CACHE"] = ""
# Workers run in parallel: each computes on one core and has its own ports.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GRADIO_SERVER_PORT"] = str(10_000 + os.getpid() % 100 * 200)

import hypothesis
import pytest
import torch
from accelerate.state import AcceleratorState, GradientState, PartialState
from playwright.sync_api import sync_playwright
from random_models import ARCHITECTURES, random_model
from transformers import AutoTokenizer

from mars_demo.assets import ASSETS
from mars_demo.models.checkpoint import wrap
from mars_demo.models.load import load_checkpoint
from mars_demo.ui import models

# Examples per test in tests/fuzz: by default a few, always the same. HYPOTHESIS_PROFILE=many or
# --hypothesis-profile=many generates more than 10,000 random ones in all.
COMMON = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}
hypothesis.settings.register_profile("few", max_examples=40, derandomize=True, **COMMON)
hypothesis.settings.register_profile("many", max_examples=1500, derandomize=False, **COMMON)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


def pytest_configure():
    """Set a SIGINT handler, so that children have the default one.

    A shell ignores SIGINT for the processes that it starts in the background, and children inherit an
    ignored signal.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Run browser tests in one worker and `full` tests last.

    The browser and the app exist once per worker. A complete run fails early where the default tier fails.
    """
    for item in items:
        if {"browser", "url", "stage_url"} & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("browser"))
    items.sort(key=lambda item: item.get_closest_marker("full") is not None)


@pytest.fixture(autouse=True)
def unchanged_state():
    """Restore process-wide state: served models, accelerate state and default dtype."""
    pool, lessons, dtype = models._pool, models._lessons, torch.get_default_dtype()
    yield
    models._pool, models._lessons = pool, lessons
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


@pytest.fixture(scope="session", params=ARCHITECTURES)
def random_checkpoint(request, tokenizer):
    """Return a random MARS checkpoint of each architecture; its end token is improbable."""
    return wrap(request.param, random_model(request.param, tokenizer), tokenizer)


@pytest.fixture(scope="session")
def checkpoint(tokenizer):
    """Return a random MARS checkpoint with room for longer texts."""
    return wrap("random", random_model("llama", tokenizer, context=256), tokenizer)
