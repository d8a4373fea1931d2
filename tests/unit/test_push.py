"""`--push` with a stand-in for the hub's client."""

from pathlib import Path

import pytest
from huggingface_hub import SpaceCard

from mars_demo import cli

pytestmark = pytest.mark.full


def files_of(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


class Hub:
    """A stand-in for the used part of `HfApi`; only the owner `me` has write access."""

    def __init__(self):
        self.created: list[tuple[str, dict]] = []
        self.files: dict[str, bytes] = {}

    def create_repo(self, repository: str, *, exist_ok: bool, **settings) -> str:
        if not repository.startswith("me/"):
            raise OSError("403 Forbidden: no rights to create it there\n(Request ID: 1)")
        self.created.append((repository, settings))
        return f"https://hub/{repository}"

    def upload_folder(self, *, repo_id: str, folder_path: Path, repo_type: str) -> None:
        self.files |= files_of(folder_path)


@pytest.fixture
def hub(monkeypatch):
    stand_in = Hub()
    monkeypatch.setattr("mars_demo.cli.space.HfApi", lambda: stand_in)
    return stand_in


def test_a_pushed_space_is_complete_on_the_hub(tmp_path, hub, capsys):
    folder, other = tmp_path / "space", tmp_path / "other"
    command = ["space", "--hardware", "zero-a10g", "--only", "--output"]
    assert cli.main([*command, str(folder), "--push", "me/model"]) == 0
    assert "https://hub/me/model" in capsys.readouterr().err
    [(repository, settings)] = hub.created
    assert repository == "me/model"
    assert settings == {"repo_type": "space", "space_sdk": "gradio", "space_hardware": "zero-a10g"}
    assert hub.files == files_of(folder)
    picture = SpaceCard(hub.files["README.md"].decode()).data.thumbnail
    assert picture.partition("spaces/me/model/resolve/main/")[2] in hub.files

    assert cli.main([*command, str(other), "--push", "somebody/space"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("mars_demo space: ")
    assert str(other) in error and "somebody/space" in error and "Request ID" not in error
