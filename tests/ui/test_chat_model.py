"""Several models on the Race tab: the default, and what changes with the choice."""

import re
from types import SimpleNamespace

import pytest

from mars_demo.ui import options
from mars_demo.ui.examples import EXAMPLES, GENERAL
from mars_demo.ui.generation import DEFAULTS
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.model_choice import choose_example, list_models, replace_example, show_examples
from mars_demo.ui.race_settings import first, in_url, known_races, opening, recorded_runs
from mars_demo.ui.racing import lanes
from mars_demo.ui.training import fresh

CHAT = "mars-smollm2-135m"
KEYS = ("prompt", "modes", "tau")


@pytest.fixture
def serve():
    """Serve models as `app.py` does with these arguments."""
    return lambda *arguments: MODELS.serve(options.read_options(arguments, {}))


def request(**query):
    return SimpleNamespace(query_params=query)


def skipped(update) -> bool:
    return update.get("__type__") == "update"


def test_the_chat_model_is_the_default_and_has_its_own_prompts(serve):
    serve()
    assert MODELS.names() == [CHAT, "mars-tiny", "ar-tiny"]
    assert list_models(request(tau="0.9")).value == CHAT
    assert list(EXAMPLES) == [CHAT, "mars-tiny", GENERAL]


def test_models_are_set_by_options_or_by_the_environment(serve):
    serve("--model", "mars-tiny", "--model", "owner/name")
    assert MODELS.names() == ["mars-tiny", "owner/name", CHAT, "ar-tiny"]
    serve("--model", "mars-tiny", "--only")
    assert MODELS.names() == ["mars-tiny"]
    named = options.read_options(["--only"], {"MARS_DEMO_MODELS": "owner/name, ar-tiny,"})
    assert named.models == ["owner/name", "ar-tiny"] and named.only
    assert options.read_options(["--model", "x"], {"MARS_DEMO_MODELS": "y"}).models == ["x"]


def test_wrong_options_get_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        options.read_options(["--only"], {})
    message = capsys.readouterr().err
    assert "--only" in message and message.startswith("app.py: ") and message.count("\n") == 1


def test_a_url_selects_the_model_of_its_prompt(serve):
    serve()
    assert list_models(request(prompt="bus")).value == "mars-tiny"
    assert list_models(request(prompt="bus", model=CHAT)).value == CHAT
    assert list_models(request(prompt="anything else")).value == CHAT
    for name in ("mars-tiny", CHAT):
        prompt, *_ = in_url(request(model=name))
        assert prompt == EXAMPLES[name][0]["prompt"]


def test_a_url_without_settings_opens_the_first_recorded_run_of_the_default_model(serve):
    for name in (CHAT, "mars-tiny"):
        serve("--model", name)
        entry = opening({})
        assert entry == recorded_runs()[0] and entry["model"] == name
        assert list_models(request()).value == name
        assert opening({"tab": "learn"}) == entry
    assert known_races()["watch"]  # the default, on one's own machine
    story = opening({"run": "story"})
    assert list_models(request(run="story")).value == story["model"] == "mars-tiny"
    prompt, modes, tau, _, *generation, _ = in_url(request(run="story"))
    assert generation == [*DEFAULTS.values()]
    *_, shape, grammar, _ = in_url(request(run="fields"))
    assert (shape, grammar) == ("json", opening({"run": "fields"})["grammar"]["text"])
    [settings, more] = known_races()["runs"]["fields"]
    assert settings[0] == opening({"run": "fields"})["prompt"] and more[-2:] == [shape, grammar]
    assert (prompt, ["ar", *modes], [[1, tau]]) == tuple(story[key] for key in KEYS)
    assert all(skipped(update) for update in in_url(request(tab="learn")))
    assert opening({"run": "unknown", "model": CHAT}) is None
    serve("--model", "owner/name")  # a default model without recorded runs
    assert opening({}) is None and list_models(request()).value == "owner/name"
    assert opening({"run": "story"}) == story


def test_a_shape_in_the_url_comes_before_that_of_its_example(serve):
    serve()
    shaped = next(one for one in EXAMPLES[CHAT] if "shape" in one)
    for given in ({}, {"shape": "none"}, {"shape": "compact", "grammar": "{}"}):
        prompt, *_, shape, grammar, advanced = in_url(request(prompt=shaped["id"], **given))
        expected = shaped | given
        assert (prompt, shape, grammar) == tuple(expected[key] for key in ("prompt", "shape", "grammar"))
        assert skipped(advanced)


def test_an_invalid_url_changes_nothing(serve):
    serve()
    invalid = {"tau": "nan", "mode": "<b>", "model": "/etc/passwd", "criterion": "luck", "watch": "inf"}
    invalid |= {"window": "0", "max_new_tokens": "1e9", "temperature": "nan", "top_p": "0", "seed": "a"}
    invalid |= {"shape": "circle", "grammar": "x" * 50_001}
    *arrived, advanced = in_url(request(**invalid))
    assert all(skipped(update) for update in arrived)
    assert list_models(request(model="/etc/passwd")).value == CHAT


def test_recorded_runs_of_models_not_served_are_omitted(serve):
    serve("--only", "--model", "ar-tiny")
    assert recorded_runs() == [] and opening({}) is None
    for name, examples in (("ar-tiny", EXAMPLES["mars-tiny"]), ("owner/name", EXAMPLES[GENERAL])):
        serve("--only", "--model", name)
        prompt, modes, *_ = first()
        assert (prompt, modes) == (examples[0]["prompt"], ["mars", "lossless"])


def test_examples_follow_the_model_and_typed_text_stays(serve):
    serve("--model", "owner/name")
    for model, key in (("mars-tiny", "mars-tiny"), ("mine-here", "mars-tiny"), ("owner/name", GENERAL)):
        assert show_examples(model).raw_samples == [[one["prompt"]] for one in EXAMPLES[key]]
    bus, chat, general = (EXAMPLES[name][0]["prompt"] for name in ("mars-tiny", CHAT, GENERAL))
    special = next(one["prompt"] for one in EXAMPLES[CHAT] if not one.get("general"))
    assert replace_example(CHAT, bus) == (chat, "none", "")
    for prompt in (bus, special):
        assert replace_example("owner/name", prompt) == (general, "none", "")
    assert skipped(replace_example(CHAT, general))
    assert replace_example("mars-tiny", special) == (bus, "none", "")
    shaped = next(one for one in EXAMPLES[CHAT] if "shape" in one)
    assert choose_example([shaped["prompt"]]) == (shaped["prompt"], shaped["shape"], shaped["grammar"])
    for prompt in (bus, "typed by a visitor"):
        assert skipped(replace_example("mars-tiny", prompt))


def test_a_race_runs_the_chosen_modes_of_the_model():
    assert lanes(("mars", "lossless", "ar", "jacobi"), ["jacobi", "mars"]) == [
        "ar",
        "mars",
        "jacobi",
    ]
    assert lanes(("ar", "jacobi"), ["mars"]) == ["ar"]
    assert lanes(("block-diffusion",), ["mars"]) == ["block-diffusion"]


def test_lessons_use_the_tiny_model_even_if_it_is_not_served(serve):
    serve("--only", "--model", "ar-tiny")
    assert MODELS.load("mars-tiny").name == "mars-tiny"
    with pytest.raises(ValueError, match=f"{CHAT}.*ar-tiny"):
        MODELS.load(CHAT)


@pytest.mark.parametrize("base", ["/etc", "../main", "nobody/no-such-model-here", None])
def test_visitors_train_only_served_models(base):
    with pytest.raises(ValueError, match=re.escape(repr(base))):
        fresh(base)


def test_a_base_too_large_to_train_is_refused(serve, monkeypatch):
    serve("--only", "--model", "ar-tiny")
    monkeypatch.setenv("MARS_DEMO_PARAMETERS", "1")
    with pytest.raises(ValueError, match=r"ar-tiny.*\b4\b.*\b1\b"):
        fresh("ar-tiny")
