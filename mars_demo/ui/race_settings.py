"""The settings of a race: those of recorded runs, and those in the page's URL."""

from collections.abc import Mapping

import gradio as gr

from mars_demo.core.acceptance import CRITERIA
from mars_demo.core.modes import BASELINE, RACED
from mars_demo.decoding.request import Request
from mars_demo.show import recordings
from mars_demo.show.scripts import call
from mars_demo.ui.examples import PROMPTS, examples_for
from mars_demo.ui.hosting.gpu import LENT
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.knobs import TAU

MODES = {f"{mode.title}: {mode.explained}": mode.name for mode in RACED}
CRITERION = Request.criterion  # that of the paper and of recorded runs; the default of the URL
WATCH = not LENT  # the default of "Watch it write"; seconds of a lent GPU are the visitor's quota
LONGEST_PROMPT = 2048  # bytes of an encoded prompt in the URL
SETTINGS = ("prompt", "model", "mode", "tau", "criterion")  # in the URL, as in url.js


def recorded_runs() -> list[dict]:
    """Return the recorded runs of the served models, those of the default model first."""
    served = MODELS.names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def recorded(entry: dict) -> tuple:
    """Return the prompt, modes, first τ and criterion of a recorded run."""
    modes = [mode for mode in entry["modes"] if mode != BASELINE]
    return entry["prompt"], modes, entry["tau"][0][1], CRITERION


def opening(query: Mapping[str, str]) -> dict | None:
    """Return the recorded run that the stage opens with.

    It is the `run` of the URL, or the first recorded run if the URL has no settings of a race.
    """
    entries = {entry["id"]: entry for entry in recorded_runs()}
    if query.get("run") in entries:
        return entries[query["run"]]
    return None if any(key in query for key in SETTINGS) else next(iter(entries.values()), None)


def first() -> tuple:
    """Return the settings that the page opens with: those of the first recorded run, if any."""
    entry = opening({})
    return recorded(entry) if entry else (PROMPTS[0]["prompt"], [RACED[0].name], TAU, CRITERION)


def in_url(request: gr.Request) -> tuple:
    """Return the prompt, modes, τ, criterion and `watch` (0 or 1) of the URL.

    The other controls stay as they are, since a visitor may be typing already. The URL names a recorded
    run, or `prompt` (a text or an example's id), `mode`, `tau` and `criterion`.
    """
    query = dict(request.query_params)
    watch = {"0": False, "1": True}.get(query.get("watch"), gr.skip())
    if "run" in query and (entry := opening(query)):
        return *recorded(entry), watch
    prompt = query.get("prompt")
    if not prompt and query.get("model") in MODELS.names():
        prompt = examples_for(query["model"])[0]["id"]
    texts = {example["id"]: example["prompt"] for example in PROMPTS}
    modes = [mode for mode in query.get("mode", "").split(",") if mode in MODES.values()]
    criterion = query.get("criterion")
    return (
        texts.get(prompt, prompt) if prompt else gr.skip(),
        modes or gr.skip(),
        _within(query.get("tau"), 1),
        criterion if criterion in CRITERIA else gr.skip(),
        watch,
    )


def _within(text: str | None, most: float):
    """Parse a number from 0 to `most`; return no change for other texts."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return gr.skip()
    return number if 0 <= number <= most else gr.skip()


def model_in_url(request: gr.Request) -> str | None:
    """Return the model of the URL's recorded run, `model` or example, by default the first served one."""
    query = request.query_params
    made_for = next((e["model"] for e in PROMPTS if e["id"] == query.get("prompt")), None)
    named = ((opening(query) or {}).get("model"), query.get("model"), made_for, *MODELS.names())
    return next((name for name in named if name in MODELS.names()), None)


def follow_recording() -> str:
    """Return the script that sets the controls to those of the chosen recorded run."""
    runs = {entry["id"]: [*recorded(entry), entry["model"]] for entry in recorded_runs()}
    return call("settingsOfRecording", runs)


def remember(live: bool = False) -> str:
    """Return the script that writes the settings into the URL.

    live: whether a race begins; if not, a control has changed.
    """
    ids = {example["prompt"]: example["id"] for example in PROMPTS}

    def written(entry: dict) -> dict:
        prompt, modes, tau, _ = recorded(entry)
        settings = {"prompt": ids.get(prompt, prompt), "model": entry["model"], "mode": ",".join(modes)}
        return settings | {"tau": f"{tau:g}", "criterion": None}

    data = {
        "live": live,
        "examples": ids,
        "recorded": {entry["id"]: written(entry) for entry in recorded_runs()},
        "order": list(MODES.values()),
        "criterion": CRITERION,
        "longest": LONGEST_PROMPT,
        "watch": WATCH,
    }
    return call("writeRace", data)
