"""The folder of a Space: card, files, and bad options."""

import os
import re
import subprocess
import sys

import pytest
import yaml
from huggingface_hub import SpaceCard, SpaceHardware
from PIL import Image

from mars_demo import cli
from mars_demo.core.assets import ASSETS
from mars_demo.static.space import Space, card, space_card_text, write_card, write_space

HARDWARE = [flavour.value for flavour in SpaceHardware]


def front_matter(folder) -> dict:
    return yaml.safe_load((folder / "README.md").read_text("utf-8").split("---\n")[1])


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "space"


def test_a_card_has_the_fields_by_which_the_hub_shows_a_space(folder):
    space = Space("cpu-basic", repository="me/space")
    write_card(folder, card(space), space_card_text(space), space.repository)
    found = SpaceCard.load(folder / "README.md")
    data = found.data
    assert (data.sdk, data.app_file, data.license) == ("gradio", "app.py", "apache-2.0")
    assert len(data.short_description) <= 60
    assert data.models == ["HuggingFaceTB/SmolLM2-135M-Instruct"]
    assert {"text-generation", "multi-token-prediction", "mcp-server"} <= {*data.tags}
    picture = data.thumbnail.removeprefix("https://huggingface.co/spaces/me/space/resolve/main/")
    width, height = Image.open(folder / picture).size
    assert width >= 1000 and width / height == pytest.approx(1.91, abs=0.1)  # of social previews
    assert "https://arxiv.org/abs/2604.07023" in found.text and f"]({picture})" in found.text
    # Without a repository the picture has no URL yet.
    write_card(folder, card(Space("cpu-basic")), "# Title", None)
    assert SpaceCard.load(folder / "README.md").data.get("thumbnail") is None


@pytest.mark.parametrize("hardware", HARDWARE)
def test_every_hardware_has_its_torch_and_its_python(hardware):
    space = Space(hardware)
    assert card(space)["suggested_hardware"] == hardware
    assert card(space)["python_version"] == ("3.12.12" if hardware == "zero-a10g" else "3.11")
    assert space.has_gpu != hardware.startswith("cpu-")
    assert "startup_duration_timeout" not in card(space)  # the hub's default is 30 minutes


def test_zerogpu_lists_the_pinned_torch():
    """Other versions are a configuration error there."""
    listed = (
        "2.8.0 2.9.1 2.10.0 2.11.0 2.12.1 2.13.0".split()
    )  # the hub's spaces-zerogpu.md, September 2026
    requirements = (ASSETS.parent / "requirements.txt").read_text("utf-8")
    assert re.search(r"^torch==(.*)$", requirements, re.MULTILINE)[1] in listed


@pytest.mark.full
def test_models_of_the_hub_are_preloaded_and_local_ones_are_copied(folder, tmp_path):
    local = tmp_path / "my model"
    local.mkdir()
    for file in (ASSETS / "ar-tiny").iterdir():
        (local / file.name).write_bytes(file.read_bytes())
    (local / "modeling_mine.py").write_text("raise SystemExit")
    (local / "optimizer.bin").write_bytes(b"x")
    space = Space("t4-small", ["owner/name", str(local)], only=True)
    write_space(space, folder)
    fields = front_matter(folder)
    assert fields["preload_from_hub"] == fields["models"] == ["owner/name"]
    assert fields["license"] == "other"
    copied = [file.name for file in (folder / "models" / "my model").iterdir()]
    assert "model.safetensors" in copied and not {"modeling_mine.py", "optimizer.bin"} & {*copied}
    assert (
        not (folder / "assets" / "mars-smollm2-135m").exists()
        and (folder / "assets" / "mars-tiny").exists()
    )
    program = "import sys; sys.argv = ['app.py']; import app; print(app.MODELS.names())"
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=alone, capture_output=True, text=True, check=True
    )
    assert "['owner/name', 'my model', 'mars-tiny', 'ar-tiny']" in done.stdout


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({"hardware": "big"}, "big.*cpu-basic"),
        ({"hardware": "cpu-basic", "models": ["nothing"]}, "nothing"),
        ({"hardware": "cpu-basic", "models": ["a/b", "a/b"]}, "names"),
    ],
)
def test_impossible_spaces_are_refused(settings, fact):
    with pytest.raises(ValueError, match=fact):
        Space(**settings)


def test_a_folder_with_files_is_not_changed(folder, capsys):
    folder.mkdir()
    (folder / "mine").write_text("mine")
    assert cli.main(["space", "--output", str(folder), "--hardware", "cpu-basic"]) == 2
    assert str(folder) in capsys.readouterr().err
    assert [file.name for file in folder.iterdir()] == ["mine"]
