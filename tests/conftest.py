"""Shared by all tests: a browser, the bundled checkpoints, small random models of each architecture."""

import os
import shutil
import signal

# Set before anything imports transformers or gradio: no test asks a hub or reports home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# No test measures what forwards cost, or finds what was measured on this machine, unless it asks for that.
os.environ["MARS_DEMO_CACHE"] = ""
# Workers test next to each other: each computes on one core, and each process has ports of its own.
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

# Examples of each test in tests/fuzz, always the same few by default. HYPOTHESIS_PROFILE=many, or
# --hypothesis-profile=many, makes more than ten thousand in all, at random.
ALIKE = {"deadline": None, "database": None, "suppress_health_check": list(hypothesis.HealthCheck)}
hypothesis.settings.register_profile("few", max_examples=40, derandomize=True, **ALIKE)
hypothesis.settings.register_profile("many", max_examples=1500, derandomize=False, **ALIKE)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "few"))


def pytest_configure():
    """Give SIGINT a handler, so that it has its default action in children: a shell ignores it for what it
    starts in the background, and children would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Browser tests run in one worker, which has the only browser and the only app; `full` tests come last,
    so that a whole run fails early where the default tier would."""
    for item in items:
        if {"browser", "url", "stage_url"} & set(item.fixturenames):
            item.add_marker(pytest.mark.xdist_group("browser"))
    items.sort(key=lambda item: item.get_closest_marker("full") is not None)


@pytest.fixture(autouse=True)
def unchanged_state():
    """Restore what a test may change for the whole process: the served models, accelerate's state and
    torch's default dtype."""
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
    """One random MARS checkpoint per architecture; its end token is far from likely."""
    return wrap(request.param, random_model(request.param, tokenizer), tokenizer)


@pytest.fixture(scope="session")
def checkpoint(tokenizer):
    """A random MARS checkpoint with room for longer texts."""
    return wrap("random", random_model("llama", tokenizer, context=256), tokenizer)
