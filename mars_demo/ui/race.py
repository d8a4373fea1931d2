"""The Race tab: one model several times on the same prompt, one token per forward and with MARS.

The runs share the processor, so each has its own clock, which counts its own forwards only, and the run
whose clock is behind takes the next step: the race as it would be on equal machines.
"""

import html
import json
import reprlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from typing import Literal

import gradio as gr

from mars_demo.trace import Pass, Run
from mars_demo.ui import models
from mars_demo.ui.stage import Stage

# Each made for one model; the first one's is the best model there is.
PROMPTS = [
    example
    for example in json.loads((models.ASSETS / "prompts.json").read_text("utf-8"))
    if models.is_bundled(example["model"])
]
EXAMPLES = {e["model"]: [own for own in PROMPTS if own["model"] == e["model"]] for e in PROMPTS}
MODES = {"MARS: accept while confidence ≥ τ": "mars", "MARS, lossless: verify its own drafts": "lossless"}
TAU = 0.95
MAX_WAIT = 1000  # ms of slow motion per forward
MAX_NEW_TOKENS = 256
MOST_NEW_TOKENS = 4096  # of a request over HTTP: it has the model for itself until it ends


class Knobs:
    """What a visitor may change while their race is on. The handlers change it in place."""

    def __init__(self):
        self.tau = TAU
        self.wait = 0  # ms that the model rests after each forward
        self.stopped = False

    def rest(self) -> None:
        """Slow motion. In short naps, so that a changed wait or a stop counts at once."""
        started = time.monotonic()
        while not self.stopped and (left := self.wait / 1000 - (time.monotonic() - started)) > 0:
            time.sleep(min(left, 0.02))


# ------------------------------------------------------------------------------------- the race


def race(runs: Mapping[str, Run]) -> Iterator[tuple[str, Pass]]:
    """Step whichever run's own clock is behind, until all have ended."""
    racing = dict(runs)
    while racing:
        lane = min(racing, key=lambda name: racing[name].seconds)
        step = next(racing[lane], None)
        if step is not None:
            yield lane, step
        if racing[lane].stop:
            del racing[lane]


def record(
    runs: Mapping[str, Run], stopped: Callable[[], bool], rest: Callable[[], None] = lambda: None
) -> Iterator[str]:
    """The JSON lines of a race, each with its lane; between forwards it rests, which no clock counts.

    Ends early once `stopped()`; always frees the runs.
    """

    def line(lane: str, text: str) -> str:
        return f'{{"lane": "{lane}", {text[1:]}\n'

    try:
        for lane, run in runs.items():
            yield line(lane, run.first_line())
        for lane, step in race(runs):
            yield line(lane, step.line())
            if step.stop:
                yield line(lane, runs[lane].last_line())
            rest()
            if stopped():
                break
        for lane, run in runs.items():
            if not run.stop:
                run.close()
                yield line(lane, run.last_line())
    finally:
        for run in runs.values():
            run.close()


def growing(lines: Iterable[str], every: float = 0.05) -> Iterator[str]:
    """The lines so far, at most once per `every` seconds and always once at the end.

    A tiny model makes a forward in a few milliseconds; showing each one would cost more than making it.
    """
    text, shown = "", time.monotonic()
    for line in lines:
        text += line
        if time.monotonic() - shown >= every:
            yield text
            shown = time.monotonic()
    yield text


# ------------------------------------------------------------------------------ what events call


def compete(prompt: str, model: str, modes: list[str], knobs: Knobs):
    """All runs, as the growing value of the stage."""
    try:
        runs = {
            mode: models.decode(
                model, prompt, mode=mode, tau=lambda: knobs.tau, max_new_tokens=MAX_NEW_TOKENS
            )
            for mode in ("ar", *(mode for mode in MODES.values() if mode in modes))
        }
        with closing(record(runs, lambda: knobs.stopped, knobs.rest)) as lines:
            yield from growing(lines)
    except ValueError as error:
        gr.Warning(html.escape(str(error)))
        yield gr.skip()  # what is on the stage stays


def generate(
    prompt: str,
    model: str | None = None,
    mode: Literal["mars", "lossless", "ar"] = "mars",
    tau: float = TAU,
    window: int | None = None,
    max_new_tokens: int = MAX_NEW_TOKENS,
) -> str:
    """Answer a prompt and stream the record of the run: JSON lines that grow as the model writes.

    The first line holds the settings, then there is a line per forward with its slots and what was
    accepted, and a closing line. The accepted slots' texts, joined, are the answer.

    Args:
        prompt: what the model is asked.
        model: a bundled checkpoint; the best one if left out.
        mode: mars accepts tokens while their confidence is at least tau; lossless verifies its own
            drafts, so the answer is that of ar; ar makes one token per forward.
        tau: from 0 to 1; 1 is one token per forward.
        window: slots per forward; what the model was trained for if left out.
        max_new_tokens: where an answer without an end is cut.

    Raises:
        gr.Error: a sentence, if one of them is not what it must be.
    """
    try:
        _check(prompt, model, mode, tau, window, max_new_tokens)
        run = models.decode(model, prompt, mode=mode, tau=tau, window=window, max_new_tokens=max_new_tokens)
        with closing(run):
            yield from growing(f"{line}\n" for line in _lines(run))
    except ValueError as error:  # whoever asked is told; it is no fault of the server's
        raise gr.Error(str(error), print_exception=False) from error


def _check(prompt, model, mode, tau, window, max_new_tokens) -> None:
    """What comes over HTTP has any type.

    Raises:
        ValueError: if one of them has another than `generate` says, or is out of its range.
    """

    def is_count(value) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    is_number = is_count(tau) or isinstance(tau, float)
    rules = [
        ("prompt", prompt, isinstance(prompt, str), "a text"),
        ("model", model, model is None or isinstance(model, str), "the name of a model"),
        ("mode", mode, mode in ("mars", "lossless", "ar"), "mars, lossless or ar"),
        ("tau", tau, is_number and 0 <= tau <= 1, "a number from 0 to 1"),
        ("window", window, window is None or is_count(window), "a whole number of slots"),
        (
            "max_new_tokens",
            max_new_tokens,
            is_count(max_new_tokens) and 1 <= max_new_tokens <= MOST_NEW_TOKENS,
            f"a whole number from 1 to {MOST_NEW_TOKENS}",
        ),
    ]
    for name, value, fits, wanted in rules:
        if not fits:
            raise ValueError(f"{name} must be {wanted}, not {reprlib.repr(value)}.")
    if any("\ud800" <= character <= "\udfff" for character in prompt):
        raise ValueError("The prompt has half of a character in it (a surrogate without its other half).")


def _lines(run: Run) -> Iterator[str]:
    yield run.first_line()
    for step in run:
        yield step.line()
    yield run.last_line()


def ready(knobs: Knobs, tau: float, wait: float):
    """Before a race: the knobs as the page shows them; Run off, Stop on."""
    knobs.tau, knobs.wait, knobs.stopped = tau, wait, False
    return gr.Button(interactive=False), gr.Button(interactive=True)


def rest():
    """After a race: Run on, Stop off."""
    return gr.Button(interactive=True), gr.Button(interactive=False)


def set_tau(knobs: Knobs, tau: float) -> None:
    knobs.tau = tau


def set_wait(knobs: Knobs, wait: float) -> None:
    knobs.wait = wait


def again(asked: gr.EventData):
    """The prompt and τ of a run on the stage, into the controls, if they are what they should be."""
    prompt, tau = asked.prompt, asked.tau
    if not isinstance(prompt, str) or not isinstance(tau, int | float) or not 0 <= tau <= 1:
        return gr.skip(), gr.skip()
    return prompt, tau


def stop(knobs: Knobs) -> None:
    knobs.stopped = True


def arrive(request: gr.Request):
    """The controls that the page's address sets: `prompt` (or an example's id), `mode`, `tau`."""
    asked = dict(request.query_params)
    texts = {example["id"]: example["prompt"] for example in PROMPTS}
    prompt, tau = asked.get("prompt"), _number(asked.get("tau"))
    if not prompt and asked.get("model") in EXAMPLES:
        prompt = EXAMPLES[asked["model"]][0]["id"]
    modes = [mode for mode in asked.get("mode", "").split(",") if mode in MODES.values()]
    return (
        texts.get(prompt, prompt) if prompt else gr.skip(),
        modes or gr.skip(),
        tau if tau is not None and 0 <= tau <= 1 else gr.skip(),
    )


def offer(request: gr.Request):
    """The models to choose from; the address may name one, or a prompt that was made for one."""
    served, asked = models.racers(), dict(request.query_params)
    made_for = next((e["model"] for e in PROMPTS if e["id"] == asked.get("prompt")), None)
    wanted = (name for name in (asked.get("model"), made_for, *served) if name in served)
    return gr.Dropdown(choices=served, value=next(wanted, None))


def suit(model: str):
    """Of the lists of examples the one made for that model."""
    return [gr.update(visible=name == _whose(model)) for name in EXAMPLES]


def swap(model: str, prompt: str):
    """An example that was made for another model gives way to one for the model that was just chosen."""
    others = {example["prompt"] for example in PROMPTS if example["model"] != _whose(model)}
    return EXAMPLES[_whose(model)][0]["prompt"] if prompt in others else gr.skip()


def _whose(model: str) -> str:
    """Whose examples suit a model; one that was trained here knows the built-in worlds."""
    return model if model in EXAMPLES else models.TINY


def _number(text: str | None) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


# ------------------------------------------------------------------------------------- the page

# Runs in the browser after every change of a control: the address then opens the same page again.
REMEMBER = """(prompt, model, modes, tau) => {
  const ids = IDS;
  const query = new URLSearchParams(location.search);
  query.set("prompt", ids[prompt] ?? prompt);
  if (model) query.set("model", model);
  query.set("mode", modes.join(","));
  query.set("tau", tau);
  clearTimeout(window.remembering);
  window.remembering = setTimeout(() => {
    const now = new URLSearchParams(location.search);
    for (const key of ["prompt", "model", "mode", "tau"]) if (query.has(key)) now.set(key, query.get(key));
    history.replaceState(history.state, "", `?${now}`);
  }, 250);
}""".replace("IDS", json.dumps({example["prompt"]: example["id"] for example in PROMPTS}))


def tab(demo: gr.Blocks) -> tuple[Stage, gr.Dropdown]:
    """The tab's components and events, inside `demo`. Returns the stage and the choice of models."""
    knobs = gr.State(Knobs())
    with gr.Row(elem_id="race"):
        with gr.Column(scale=2, min_width=280, elem_id="controls"):
            prompt = gr.Textbox(
                PROMPTS[0]["prompt"], label="Prompt", lines=3, max_lines=8, elem_id="prompt"
            )
            with gr.Row():
                run = gr.Button("Run", variant="primary", scale=2, min_width=120, elem_id="run")
                halt = gr.Button("Stop", interactive=False, min_width=80, elem_id="stop")
            tau = gr.Slider(
                0,
                1,
                TAU,
                step=0.01,
                label="Threshold τ",
                info="Live. At 1, one token per forward.",
                elem_id="tau",
            )
            with gr.Column(elem_id="examples"):
                examples = [
                    gr.Examples(
                        [[example["prompt"]] for example in made],
                        prompt,
                        example_labels=[example["title"] for example in made],
                        examples_per_page=len(made),
                        api_visibility="private",
                        visible=made[0] is PROMPTS[0],
                    ).dataset
                    for made in EXAMPLES.values()
                ]
            modes = gr.CheckboxGroup(
                list(MODES.items()), value=["mars"], label="Beside one token per forward", elem_id="mode"
            )
            wait = gr.Slider(
                0,
                MAX_WAIT,
                0,
                step=10,
                label="Slow motion: rest after each forward, ms",
                info="Takes effect immediately; excluded from timings.",
                elem_id="wait",
            )
            model = gr.Dropdown([], label="Model", elem_id="model")
        with gr.Column(scale=7, min_width=640):
            stage = Stage()

    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    at_once = {"queue": False, **quiet}
    live = {"trigger_mode": "always_last", **at_once}
    settings = [prompt, model, modes, tau]
    demo.load(arrive, None, [prompt, modes, tau], **at_once)
    demo.load(offer, None, model, **at_once)  # waits until the model code is imported
    if len(examples) > 1:
        model.change(suit, model, examples, **at_once)
        model.input(swap, [model, prompt], prompt, **at_once)
    asked = stage.again(again, None, [prompt, tau], **at_once)
    for start in (run.click, prompt.submit, asked.then):
        start(ready, [knobs, tau, wait], [run, halt], **at_once).then(
            compete,
            [prompt, model, modes, knobs],
            stage,
            concurrency_id="model",
            concurrency_limit=1,
            show_progress="minimal",
            show_progress_on=prompt,
            api_visibility="private",
        ).then(rest, None, [run, halt], **at_once)
    halt.click(stop, knobs, None, **at_once)
    tau.input(set_tau, [knobs, tau], None, **live)
    wait.input(set_wait, [knobs, wait], None, **live)
    gr.on([c.change for c in settings], None, settings, None, js=REMEMBER, **quiet)
    gr.api(generate, api_name="generate", concurrency_id="model", concurrency_limit=1)
    return stage, model
