"""Model cards: the front matter by which the hub lists a model, read by the hub's own class."""

import json
from dataclasses import replace

import pytest
import yaml
from huggingface_hub import ModelCard, parse_eval_result_entries
from huggingface_hub.repocard import REGEX_YAML_BLOCK

from mars_demo import cli
from mars_demo.core.assets import ASSETS
from mars_demo.core.names import bundled
from mars_demo.evaluation import results
from mars_demo.models.export import card
from mars_demo.models.export.save import save_checkpoint

LINK = "https://arxiv.org/abs/2604.07023"


def read(folder) -> ModelCard:
    text = (folder / "README.md").read_text("utf-8")
    assert len(REGEX_YAML_BLOCK.findall(text)) == 1
    return ModelCard(text)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "trained"
    folder.mkdir()
    return folder


def base_with(folder, checkpoint, name: str, front: str):
    """Return a checkpoint as if it had this name and front matter."""
    folder.mkdir()
    (folder / "README.md").write_text(f"---\n{front}\n---\n\n# A base\n")
    return replace(checkpoint, name=name, source=folder)


@pytest.mark.parametrize("name", bundled())
def test_cards_of_the_bundled_models_have_the_fields_of_the_hub(name):
    found, config = read(ASSETS / name), json.loads((ASSETS / name / "config.json").read_text("utf-8"))
    data = found.data
    assert (data.pipeline_tag, data.library_name) == ("text-generation", "transformers")
    assert (data.license, data.language) == ("apache-2.0", "en")
    is_mars = config["objective"] == "mars"
    assert data.tags == ["synthetic", *(["mars"] if is_mars else [])]
    assert (LINK in found.text) == is_mars == ("```bibtex" in found.text)
    assert "## Intended use and limitations" in found.text and "app.py --model" in found.text


def test_the_chat_models_card_says_what_its_base_lost():
    rows = {row["method"]: row for row in results.read_results("chat.json")["rows"]}
    text = read(ASSETS / "mars-smollm2-135m").text
    assert f"follows {rows['AR']['checks']:.1%}, the base {rows['base']['checks']:.1%}" in text
    assert f"base's on {rows['AR']['agreement']:.1%}" in text
    assert f"{rows['τ = 0.95']['equal']} of 32 answers" in text


def test_results_on_a_benchmark_are_written_as_the_hub_reads_them(tmp_path, folder, mars_tiny, capsys):
    save_checkpoint(mars_tiny.model, mars_tiny.tokenizer, folder, mars_tiny.block_size)
    card.write_recipe(folder, mars_tiny, {"objective": "mars", "data": "tasks:units+skills"})
    assert read(folder).data.tags == ["synthetic", "custom_generate", "mars"]
    command = ["evaluate", "--model", str(folder), "--tasks", "units,tables", "--taus", "1,0.9"]
    command += ["--limit", "3", "--output", str(folder / "results.json")]
    assert cli.main([*command, "--benchmark", "units"]) == 2 and "OWNER/NAME" in capsys.readouterr().err
    assert cli.main([*command, "--benchmark", "owner/tasks"]) == 0
    rows = json.loads((folder / "results.json").read_text())["rows"]
    for file, tau in zip(sorted((folder / ".eval_results").iterdir()), (1, 0.9), strict=True):
        entries = parse_eval_result_entries(yaml.safe_load(file.read_text("utf-8")))
        assert [(entry.dataset_id, entry.task_id, entry.value) for entry in entries] == [
            ("owner/tasks", row["task"], pytest.approx(100 * row["accuracy"], abs=0.01))
            for row in rows
            if row["tau"] == tau
        ]
        assert all(f"τ = {tau}," in entry.notes and entry.date for entry in entries)
    assert "owner/tasks" not in read(folder).content  # no `model-index`
    card.write_recipe(folder, mars_tiny, {"objective": "mars", "data": "mine.jsonl"})
    assert not (folder / ".eval_results").exists() and "synthetic" not in read(folder).data.tags


def test_a_trained_model_has_a_card_that_the_hub_accepts(tmp_path, folder, mars_tiny):
    front = "license: other\nlicense_name: research\nlanguage: [en, de]\ntags: [chat]"
    base = base_with(tmp_path / "base", mars_tiny, "owner/base", front)
    save_checkpoint(mars_tiny.model, mars_tiny.tokenizer, folder, mars_tiny.block_size)
    data = f"tasks+owner/talks+{tmp_path / 'mine.jsonl'}"
    card.write_recipe(folder, base, {"objective": "mars", "data": data, "seed": 3})
    found = read(folder)
    fields = found.data.to_dict()
    assert fields == {
        "base_model": "owner/base", "base_model_relation": "finetune", "datasets": ["owner/talks"],
        "language": ["en", "de"], "library_name": "transformers", "license": "other",
        "license_name": "research", "pipeline_tag": "text-generation", "tags": ["custom_generate", "mars"],
    }  # fmt: skip
    assert LINK in found.text and "| seed" in found.text
    card.write_model_card(folder)  # again, as after an evaluation
    assert read(folder).content == found.content

    # The hub rejects a card whose base is a path; a base trained from one of the hub passes it on.
    fronts = {"license: mit": None, "base_model: owner/first": "owner/first", "base_model: ../first": None}
    for front, expected in (fronts | {"license: 2026-01-01": None}).items():
        source = tmp_path / f"base {front.replace('/', ' ')}"
        base = base_with(source, mars_tiny, str(source), front)
        card.write_recipe(folder, base, {"objective": "ar", "data": "skills"})
        found = read(folder)
        assert found.data.base_model == expected and found.data.datasets is None
        assert LINK not in found.text and "mars" not in found.data.tags


def test_an_exported_model_keeps_its_card_and_licence(tmp_path, mars_tiny):
    folder = tmp_path / "exported"
    command = ["export", "mars-tiny", "--format", "safetensors", "--output", str(folder)]
    assert cli.main(command) == 0
    found, own = read(folder), read(ASSETS / "mars-tiny")
    assert found.text == own.text and LINK in found.text
    assert found.data.tags == ["synthetic", "mars", "custom_generate"]
    fields = {"license", "language", "pipeline_tag", "library_name"}
    assert {name: found.data[name] for name in fields} == {name: own.data[name] for name in fields}

    chat = replace(mars_tiny, source=ASSETS / "mars-smollm2-135m")  # with a recipe
    card.write_exported(chat, folder)
    found = read(folder)
    assert found.data.base_model == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert "custom_generate=FOLDER" in found.text and (folder / "LICENSE").is_file()

    plain = tmp_path / "plain"
    plain.mkdir()
    card.write_exported(replace(mars_tiny, source=None, objective="ar"), plain)
    assert read(plain).data.to_dict() == {
        "library_name": "transformers", "pipeline_tag": "text-generation", "tags": [],
    }  # fmt: skip
