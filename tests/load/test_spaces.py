"""A Space run as on the hub: `python app.py` in a fresh environment with its requirements."""

import json
import subprocess
import sys

import pytest
from child_app import started
from web import app_client

from mars_demo.core.names import CHAT
from mars_demo.core.trace import Run
from mars_demo.static.space import Space, write_space


@pytest.mark.full
def test_a_space_starts_and_answers_in_a_fresh_environment(tmp_path):
    """If the index of CPU builds cannot be reached, pip uses the other index."""
    folder = tmp_path / "space"
    write_space(Space("cpu-basic"), folder)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--no-compile", "--retries", "0", "--timeout", "10"]
    subprocess.run([*pip, "-r", folder / "requirements.txt"], check=True, capture_output=True)
    environment = {  # as set by the runner of the hub
        "SYSTEM": "spaces", "SPACE_ID": "me/mars", "GRADIO_SERVER_NAME": "0.0.0.0", "HOME": str(folder),
    }  # fmt: skip
    with started("app.py", python=python, folder=folder, environment=environment) as child:
        client = app_client(child.wait_for_url())
        prompt = "Which city is the capital of Latvia?"
        record = client.predict(prompt, mode="ar", max_new_tokens=48, trace=True, api_name="/generate")
        assert json.loads(record.splitlines()[0])["model"] == CHAT
        assert Run.read(record.splitlines()).text
