"""`--push-to-hub` and `--push` with a stand-in for the hub's client."""

from pathlib import Path

import pytest
from huggingface_hub import ModelCard, SpaceCard
from huggingface_hub.utils import filter_repo_objects

from mars_demo import cli
from mars_demo.models.load import load_checkpoint

pytestmark = pytest.mark.full


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

    def upload_folder(self, *, repo_id: str, folder_path: Path, repo_type, ignore_patterns) -> None:
        paths = (str(file.relative_to(folder_path)) for file in folder_path.rglob("*") if file.is_file())
        for path in filter_repo_objects(paths, ignore_patterns=ignore_patterns):
            self.files[path] = (folder_path / path).read_bytes()


@pytest.fixture
def hub(monkeypatch):
    stand_in = Hub()
    monkeypatch.setattr("mars_demo.models.export.push.HfApi", lambda: stand_in)
    return stand_in


def test_a_pushed_space_is_complete_on_the_hub(tmp_path, hub, capsys):
    folder, other = tmp_path / "space", tmp_path / "other"
    command = ["space", "--hardware", "zero-a10g", "--only", "--output"]
    assert cli.main([*command, str(folder), "--push", "me/model"]) == 0
    assert "https://hub/me/model" in capsys.readouterr().err
    [(repository, settings)] = hub.created
    assert repository == "me/model"
    assert settings == {"repo_type": "space", "space_sdk": "gradio", "space_hardware": "zero-a10g"}
    written = {str(file.relative_to(folder)): file for file in folder.rglob("*") if file.is_file()}
    assert hub.files == {name: file.read_bytes() for name, file in written.items()}
    picture = SpaceCard(hub.files["README.md"].decode()).data.thumbnail
    assert picture.partition("spaces/me/model/resolve/main/")[2] in hub.files

    assert cli.main([*command, str(other), "--push", "somebody/space"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("mars_demo space: ")
    assert str(other) in error and "somebody/space" in error and "Request ID" not in error


def test_a_pushed_checkpoint_is_complete_without_training_files(tmp_path, hub, capsys):
    folder = tmp_path / "trained"
    (folder / "checkpoint-1").mkdir(parents=True)  # left by a run interrupted while saving
    (folder / "checkpoint-1" / "optimizer.pt").write_bytes(b"x")
    (folder / "self.jsonl").write_text("{}\n")
    command = ["train", "--base", "mars-tiny", "--data", "tasks:units", "--steps", "1", "--resume"]
    command += ["--batch-tokens", "256", "--output", str(folder), "--push-to-hub"]
    assert cli.main([*command, "somebody/model"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("mars_demo train: ") and str(folder) in error
    assert "somebody/model" in error and "403" in error
    assert cli.main([*command, "me/model"]) == 0
    assert "me/model" in capsys.readouterr().err
    data = ModelCard(hub.files["README.md"].decode()).data
    assert (data.base_model, data.license, data.tags) == (None, "apache-2.0", ["custom_generate", "mars"])

    assert [repository for repository, _ in hub.created] == ["me/model"]
    assert set(hub.files) == {
        "README.md", "config.json", "generation_config.json", "model.safetensors", "recipe.json",
        "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "custom_generate/engine.py",
        "custom_generate/acceptance.py", "custom_generate/generate.py", "custom_generate/layout.py",
        "custom_generate/decoder.py", "mars_vllm/acceptance.py", "mars_vllm/serve.yaml",
        *(f"mars_vllm/{file.name}" for file in Path(cli.__file__).parents[1].glob("vllm/*.py")),
    }  # fmt: skip
    clone = tmp_path / "clone"
    for name, content in hub.files.items():
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes(content)
    loaded = load_checkpoint(str(clone), device="cpu")
    assert (loaded.objective, loaded.block_size) == ("mars", 8)
