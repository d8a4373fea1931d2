"""The settings of a race: those of recorded runs, and those in the page's URL."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import gradio as gr
from pydantic import TypeAdapter

from mars_demo.core.fields import Share
from mars_demo.core.grammar import Grammar
from mars_demo.core.modes import BASELINE, OPENING, RACED
from mars_demo.show import recordings
from mars_demo.ui.examples import PROMPTS, examples_for
from mars_demo.ui.generation import DEFAULTS, in_query, of_grammar
from mars_demo.ui.hosting.gpu import LENT
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU

MODES = {f"{mode.title}: {mode.explained}": mode.name for mode in RACED}
WATCH = not LENT  # the default of "Watch it write"; seconds of a lent GPU are the visitor's quota
LONGEST_PROMPT = 2048  # bytes of an encoded prompt in the URL
SHAPE = ("shape", "grammar")
SETTINGS = ("prompt", "model", "mode", "tau", *DEFAULTS)  # in the URL, as in url.js


def recorded_runs() -> list[dict]:
    """Return the recorded runs of the served models, those of the default model first."""
    served = MODELS.names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def recorded(entry: dict) -> tuple:
    """Return the prompt, modes and first τ of a recorded run."""
    modes = [mode for mode in entry["modes"] if mode != BASELINE]
    return entry["prompt"], modes, entry["tau"][0][1]


def recorded_generation(entry: dict) -> list:
    """Return the generation settings of a recorded run: the defaults, but for the shape of its answer."""
    grammar = Grammar(**entry["grammar"]) if "grammar" in entry else None
    return [*(DEFAULTS | of_grammar(grammar)).values()]


def opening(query: Mapping[str, str]) -> dict | None:
    """Return the recorded run that the stage opens with.

    It is the `run` of the URL, or the default model's first recorded run if the URL has no settings of a
    race.
    """
    entries = {entry["id"]: entry for entry in recorded_runs()}
    if query.get("run") in entries:
        return entries[query["run"]]
    if any(key in query for key in SETTINGS):
        return None
    return next((entry for entry in entries.values() if entry["model"] == MODELS.names()[0]), None)


def first() -> tuple:
    """Return the settings that the page opens with: the first recorded run's, or the first example's."""
    if entry := opening({}):
        return recorded(entry)
    return examples_for(MODELS.names()[0])[0]["prompt"], [*OPENING], TAU


def in_url(request: gr.Request) -> tuple:
    """Return the prompt, modes, τ, `watch` (0 or 1) and generation settings of the URL; show the latter.

    The other controls stay as they are, since a visitor may be typing already. The URL names a recorded
    run, or `prompt` (a text or an example's id), `mode`, `tau` and generation settings.
    """
    query = dict(request.query_params)
    watch = {"0": False, "1": True}.get(query.get("watch"), gr.skip())
    if "run" in query and (entry := opening(query)):
        return *recorded(entry), watch, *recorded_generation(entry), gr.skip()
    prompt = query.get("prompt")
    if not prompt and query.get("model") in MODELS.names():
        prompt = examples_for(query["model"])[0]["id"]
    example = next((example for example in PROMPTS if example["id"] == prompt), {"prompt": prompt})
    query = {name: example[name] for name in SHAPE if name in example} | query
    modes = [mode for mode in query.get("mode", "").split(",") if mode in MODES.values()]
    return (
        example["prompt"] or gr.skip(),
        modes or gr.skip(),
        _valid(TypeAdapter(Share).validate_strings, query.get("tau")),
        watch,
        *(_valid(partial(in_query, name), query.get(name)) for name in DEFAULTS),
        gr.Accordion(open=True) if query.keys() & DEFAULTS.keys() - {*SHAPE} else gr.skip(),
    )


def _valid(parse: Callable[[str], Any], text: str | None) -> Any:
    """Return the value of a text; no change if there is none or it is invalid."""
    with suppress(ValueError):
        if text is not None:
            return parse(text)
    return gr.skip()


def model_in_url(request: gr.Request) -> str | None:
    """Return the model of the URL's recorded run, `model` or example, by default the first served one."""
    query, names = request.query_params, MODELS.names()
    made_for = next((e["model"] for e in PROMPTS if e["id"] == query.get("prompt")), None)
    named = ((opening(query) or {}).get("model"), query.get("model"), made_for, *names)
    return next((name for name in named if name in names), None)


def known_races() -> dict[str, Any]:
    """Return what the page's script of the URL knows of races; see `races` in url.js."""
    return {
        "runs": {
            entry["id"]: [[*recorded(entry), entry["model"]], recorded_generation(entry)]
            for entry in recorded_runs()
        },
        "first": (opening({}) or {}).get("id"),
        "examples": {
            example["prompt"]: {name: example.get(name) for name in ("id", *SHAPE)} for example in PROMPTS
        },
        "modes": list(MODES.values()),
        "defaults": DEFAULTS,
        "longest": LONGEST_PROMPT,
        "watch": WATCH,
    }
