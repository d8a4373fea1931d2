"""The recorded trainings of the page, and trainings started there."""

import json

import pytest
import torch

from mars_demo.models.load import load_checkpoint
from mars_demo.training import watching
from mars_demo.training.recipe import Recipe


def test_a_recorded_training_is_that_of_its_preset_and_complete():
    for entry in watching.index():
        lines = [json.loads(line) for line in watching.recording(entry["id"]).splitlines()]
        preset = next(preset for preset in watching.PRESETS if preset["id"] == entry["preset"])
        settings = ("objective", "block_size", "sft_weight", "data", "steps", "learning_rate")
        recipe = watching.recipe(*(preset[name] for name in settings), seed=entry["seed"])
        first, last = lines[0], lines[-1]
        assert (first["schema"], first["base"], first["prompt"]) == (1, entry["base"], entry["prompt"])
        # Settings that came after the recording stand at their defaults.
        assert Recipe(**first["recipe"] | {"save_every": 0}) == recipe  # none was ever read
        assert [line["step"] for line in lines if "step" in line] == list(range(1, recipe.steps + 1))
        assert last == {"done": True, "steps": recipe.steps}
        for kind in ("answer", "probe"):
            assert [line[kind] for line in lines if kind in line][-1] == recipe.steps


@pytest.mark.parametrize("stop", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_stopped_training_is_saved_at_any_step(stop, tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "PROBE_PROMPTS", 1)
    checkpoint = load_checkpoint("ar-tiny", "cpu", torch.float32)
    recipe = watching.recipe("mars", 4, 1, "code", steps=2, learning_rate=1e-3, seed=0)
    seen = []

    def stopped() -> bool:
        return sum('"step"' in line for line in seen) >= stop

    for line in watching.watch(checkpoint, recipe, "Hello", tmp_path, "mine", stopped=stopped):
        seen.append(line)
    assert json.loads(seen[-1]) == {"done": True, "steps": stop}
    records = [line.get("record") or line.get("before") for line in map(json.loads, seen)]
    slots = [slot for record in records for line in record or [] for slot in line.get("slots", [])]
    assert slots and all(len(slot.get("candidates", [])) == len(slot["top"]) for slot in slots)
    saved = load_checkpoint(str(tmp_path), "cpu")
    assert saved.block_size == 4
    for name, value in saved.model.state_dict().items():
        torch.testing.assert_close(value, checkpoint.model.state_dict()[name].bfloat16().float())


@pytest.mark.parametrize(
    ("wrong", "fact"),
    [
        ({"data": "poems"}, "poems.*word problems"),
        ({"steps": 0}, "1.*2000.*0"),
        ({"learning_rate": 0.5}, "0.1.*0.5"),
    ],
)
def test_impossible_trainings_are_refused(wrong, fact):
    right = {"objective": "mars", "block_size": 8, "sft_weight": 1, "data": "code", "steps": 5}
    with pytest.raises(ValueError, match=fact):
        watching.recipe(**(right | {"learning_rate": 1e-3, "seed": 0} | wrong))


def test_an_unknown_recording_is_refused():
    with pytest.raises(ValueError, match="../runs/bus"):
        watching.recording("../runs/bus")
