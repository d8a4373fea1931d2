"""Spaces run as on the hub: `python app.py` in a fresh environment with their requirements."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from child_app import GUARD, started
from gradio_client import Client

from mars_demo.core.assets import ASSETS
from mars_demo.core.trace import Run
from mars_demo.static.space import Space, write_space

TESTS = Path(__file__).parents[1]
PROMPT = "Which city is the capital of Latvia?"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> str:
    """Return the Python of an environment with the requirements of a CPU Space.

    If the index of CPU builds cannot be reached, pip uses the other index.
    """
    place = tmp_path_factory.mktemp("runner")
    write_space(Space("cpu-basic", only=True), place / "space")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    python = str(place / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "0", "--timeout", "10"]
    subprocess.run([*pip, "-r", place / "space" / "requirements.txt"], check=True, capture_output=True)
    return python


def settings(folder: Path) -> dict[str, str]:
    """Return the environment variables set by the runner of the hub."""
    return {
        "SYSTEM": "spaces", "SPACE_ID": "me/mars", "GRADIO_SERVER_NAME": "0.0.0.0", "HOME": str(folder),
    }  # fmt: skip


@pytest.mark.full
def test_a_space_starts_and_answers_on_each_hardware(python, tmp_path):
    local = tmp_path / "local"
    shutil.copytree(ASSETS / "ar-tiny", local)
    preinstalled = tmp_path / "lends"  # ZeroGPU preinstalls the package `spaces`
    preinstalled.mkdir()
    shutil.copy(TESTS / "forking_spaces.py", preinstalled / "spaces.py")
    spaces = {
        "cpu-basic": (Space("cpu-basic"), "mars-smollm2-135m", {}),
        "zero-a10g": (
            Space("zero-a10g", ["mars-tiny"], only=True),
            "mars-tiny",
            {"PYTHONPATH": str(preinstalled), "SPACES_ZERO_GPU": "true"},
        ),
        "t4-small": (Space("t4-small", [str(local)], only=True), "local", {}),
    }
    for hardware, (space, default, more) in spaces.items():
        folder = tmp_path / hardware
        write_space(space, folder)
        environment = settings(folder) | more
        with started("app.py", python=python, folder=folder, environment=environment) as child:
            client = Client(child.wait_for_url(), verbose=False, httpx_kwargs={"timeout": GUARD})
            record = client.predict(PROMPT, mode="ar", max_new_tokens=48, trace=True, api_name="/generate")
            assert json.loads(record.splitlines()[0])["model"] == default
            text = Run.read(record.splitlines()).text
            assert "Riga" in text or hardware == "cpu-basic"
            assert text
