"""What all tests share: a browser, the bundled checkpoints, small random models of each architecture."""

from __future__ import annotations

import os
import shutil

# Set before anything imports transformers or gradio: no test asks a hub or reports home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# No test measures what forwards cost, or finds what was measured on this machine, unless it asks for that.
os.environ["MARS_DEMO_CACHE"] = ""
# Workers test next to each other: each computes on one core and has ports of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GRADIO_SERVER_PORT"] = str(7860 + 200 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]))

import pytest
from playwright.sync_api import sync_playwright
from random_models import ARCHITECTURES, random_model
from transformers import AutoTokenizer

from mars_demo.assets import ASSETS
from mars_demo.models.checkpoint import wrap
from mars_demo.models.load import load_checkpoint


def pytest_collection_modifyitems(items):
    """The slow tests first: else a worker ends with them while the other has nothing left to do."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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
