"""What all tests share: a browser, the bundled checkpoints, small random models of each architecture."""

from __future__ import annotations

import os
import shutil

# Set before anything imports transformers or gradio: no test asks a hub or reports home.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
# Two workers test beside each other: each takes one core and has ports of its own.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["GRADIO_SERVER_PORT"] = {"gw1": "8060"}.get(os.environ.get("PYTEST_XDIST_WORKER"), "7860")

import pytest
from playwright.sync_api import sync_playwright
from random_models import ARCHITECTURES, random_model
from transformers import AutoTokenizer

from mars_demo import checkpoints


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])


@pytest.fixture(scope="session")
def tokenizer():
    return AutoTokenizer.from_pretrained(checkpoints.ASSETS / "mars-tiny", trust_remote_code=False)


@pytest.fixture(scope="session")
def mars_tiny():
    return checkpoints.load("mars-tiny", device="cpu")


@pytest.fixture(scope="session")
def ar_tiny():
    return checkpoints.load("ar-tiny", device="cpu")


@pytest.fixture(scope="session", params=ARCHITECTURES)
def random_checkpoint(request, tokenizer):
    """One random MARS checkpoint per architecture; its end token is far from likely."""
    return checkpoints.wrap(request.param, random_model(request.param, tokenizer), tokenizer)
