"""The app where a chat model is bundled: a packed copy of the tiny one stands in its place."""

import importlib
import shutil
from types import SimpleNamespace

import pytest

from mars_demo import checkpoints, packing
from mars_demo.ui import models, race

CHAT = checkpoints.BUNDLED[0]


@pytest.fixture
def app(mars_tiny, tmp_path, monkeypatch):
    """The Race tab's module over assets that hold both models."""
    for name in ("mars-tiny", "ar-tiny"):
        (tmp_path / name).symlink_to(checkpoints.ASSETS / name)
    recipe = packing.RECIPES["Q8_0"]
    packing.pack(mars_tiny.model, checkpoints.ASSETS / "mars-tiny", tmp_path / CHAT, recipe)
    for name in ("prompts.json", "models.json"):
        shutil.copy(checkpoints.ASSETS / name, tmp_path)
    monkeypatch.setattr(checkpoints, "ASSETS", tmp_path)
    monkeypatch.setattr(models, "ASSETS", tmp_path)
    monkeypatch.setattr(models, "_loaded", {})
    yield importlib.reload(race)
    monkeypatch.undo()
    importlib.reload(race)


KEYS = ("prompt", "modes", "tau")


def request(**query):
    return SimpleNamespace(query_params=query)


def test_it_is_the_default_and_has_prompts_of_its_own(app):
    assert models.names()[0] == models.load().name == CHAT
    assert app.PROMPTS[0]["model"] == CHAT
    assert set(app.EXAMPLES) == {CHAT, "mars-tiny"}
    assert app.offer(request(tau="0.9")).value == CHAT


def test_an_address_finds_the_model_that_its_prompt_was_made_for(app):
    assert app.offer(request(prompt="bus")).value == "mars-tiny"
    assert app.offer(request(prompt="bus", model=CHAT)).value == CHAT
    assert app.offer(request(prompt="anything else")).value == CHAT
    prompt, *_ = app.arrive(request(model="mars-tiny"))
    assert prompt == app.EXAMPLES["mars-tiny"][0]["prompt"]


def test_an_address_without_settings_opens_a_recorded_run_with_its_model(app):
    for query in ({}, {"run": "story"}, {"tab": "learn"}):
        entry = app.opening(query)
        assert entry["id"] == query.get("run", "bus")
        assert app.offer(request(**query)).value == entry["model"] == "mars-tiny"
    prompt, modes, tau, _ = app.arrive(request(run="story"))
    assert (prompt, ["ar", *modes], [[1, tau]]) == tuple(app.opening({"run": "story"})[k] for k in KEYS)
    assert all(update["__type__"] == "update" for update in app.arrive(request(tab="learn")))
    assert app.opening({"run": "unknown", "model": CHAT}) is None


def test_what_is_written_about_a_model_is_shown(app):
    for name in (CHAT, "mars-tiny"):
        assert models.knows(name)
    assert models.card("mars-tiny").startswith("# mars-tiny")
    assert models.knows("trained-here") is None and models.card("../mars-tiny") == ""


def test_examples_follow_the_model_and_typed_text_stays(app):
    assert [shown["visible"] for shown in app.suit("mars-tiny")] == [False, True]
    assert [shown["visible"] for shown in app.suit("trained-here")] == [False, True]
    bus = app.EXAMPLES["mars-tiny"][0]["prompt"]
    assert app.swap(CHAT, bus) == app.PROMPTS[0]["prompt"]
    assert app.swap("mars-tiny", app.PROMPTS[0]["prompt"]) == bus
    for prompt in (bus, "typed by a visitor"):
        assert app.swap("mars-tiny", prompt)["__type__"] == "update"


def test_it_races_from_its_packed_weights(app):
    *_, shown = app.compete("How many meters is 14 kilometers?", CHAT, ["mars"], app.Knobs())
    assert shown.count('"done": true') == 2 and '"dtype": "bfloat16"' in shown


def test_without_it_the_tiny_model_is_first():
    if not models.is_bundled(CHAT):
        assert race.PROMPTS[0]["model"] == models.names()[0] == "mars-tiny"
        assert list(race.EXAMPLES) == ["mars-tiny"]
