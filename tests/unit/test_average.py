"""The average of checkpoints: its weights, its files, and what it rejects."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from huggingface_hub import ModelCard
from random_models import random_model
from safetensors.torch import load_file

from mars_demo import cli
from mars_demo.core.assets import ASSETS
from mars_demo.models.export.save import save_checkpoint
from mars_demo.models.load import load_checkpoint
from mars_demo.recipes import average


def test_the_average_has_the_weights_by_their_shares_and_the_recipe_of_the_first(tmp_path, mars_tiny):
    trained, output = tmp_path / "trained", tmp_path / "average"
    shutil.copytree(ASSETS / "mars-tiny", trained)
    (trained / "recipe.json").write_text(json.dumps({"base": "ar-tiny", "objective": "mars", "seed": 1}))
    assert (
        cli.main(
            ["recipe", "average", f"{trained}=2", "ar-tiny=1", f"{trained}=1", "--output", str(output)]
        )
        == 0
    )
    first, second = (load_file(ASSETS / name / "model.safetensors") for name in ("mars-tiny", "ar-tiny"))
    averaged = load_file(output / "model.safetensors")
    assert averaged.keys() == first.keys()
    for name, weight in averaged.items():
        exact = torch.stack([first[name], first[name], first[name], second[name]]).double().mean(0)
        torch.testing.assert_close(weight.double(), exact, rtol=2**-8, atol=0)  # of bfloat16
    made = load_checkpoint(str(output), "cpu")
    assert (made.objective, made.block_size, made.mask_id) == ("mars", 8, mars_tiny.mask_id)
    recipe = json.loads((output / "recipe.json").read_text())
    assert (recipe["seed"], recipe["averaged"]) == (1, "trained 0.5, ar-tiny 0.25, trained 0.25")
    assert recipe["averaged"] in (output / "README.md").read_text()


@pytest.mark.parametrize("recipe", [None, {"seed": 7}])
def test_an_average_has_a_card_also_without_a_complete_recipe(tmp_path, recipe):
    trained, output = shutil.copytree(ASSETS / "mars-tiny", tmp_path / "trained"), tmp_path / "average"
    if recipe:
        (trained / "recipe.json").write_text(json.dumps(recipe))
    average.write_average([(str(trained), 3), ("ar-tiny", 1)], output)
    card = ModelCard((output / "README.md").read_text())
    assert "trained 0.75, ar-tiny 0.25" in card.text and str(tmp_path) not in card.text
    assert card.data.license == "apache-2.0" and card.data.tags == ["custom_generate", "mars"]


def test_other_shapes_and_shares_are_rejected(tmp_path, tokenizer):
    other = str(tmp_path / "other")
    save_checkpoint(random_model("llama", tokenizer), tokenizer, Path(other), block_size=8)
    for shares, fact in (
        ([("mars-tiny", 1), (other, 1)], "differ in shape"),
        ([("mars-tiny", 1), ("ar-tiny", 0)], "share of ar-tiny must be"),
        ([("mars-tiny", math.nan)], "not nan"),
    ):
        with pytest.raises(ValueError, match=fact):
            average.write_average(shares, tmp_path / "average")
    assert not (tmp_path / "average").exists()
