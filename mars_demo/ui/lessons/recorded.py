"""Figures of recorded runs, trainings and masks, alone or as a choice of several."""

import json

from mars_demo.decoding.trace import Run, read_text
from mars_demo.evaluation import trainings
from mars_demo.models.chat import encode_prompt
from mars_demo.ui import models
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.lessons.tables import chart, rows, speeds
from mars_demo.ui.tabs import mask
from mars_demo.views import recordings
from mars_demo.views.mask_picture import KINDS, Sentence, of_pass

SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."


def stage(element: dict) -> dict[str, dict]:
    """Show a recorded run with some of its modes."""
    return {"stage": shown(value=recorded(element["run"], element["modes"]))}


def race(element: dict) -> dict[str, dict]:
    """Show a recorded run, with a slider and buttons to race it again."""
    return {"stage": shown(value=recorded(element["prompt"], ["ar", "mars"])), "live": shown()}


def grid(element: dict) -> dict[str, dict]:
    """Show the mask of one layout."""
    return {"grid": shown(value=picture(element["picture"], element["block_size"], element.get("new", 2)))}


def trained(element: dict) -> dict[str, dict]:
    """Show the answer that was recorded after a step of a training."""
    lines = map(json.loads, trainings.recording(element["training"]).splitlines())
    record = next(line["record"] for line in lines if line.get("answer") == element["step"])
    return {"stage": shown(value="".join(f"{json.dumps(line)}\n" for line in record))}


def forward(element: dict) -> dict[str, dict]:
    """Show the mask of one forward of a recorded run of `models.TINY`."""
    run, checkpoint = one_run(element), models.load(models.TINY)
    prompt_ids = encode_prompt(checkpoint.tokenizer, run.settings.conversation)
    drawn = of_pass(run, element["forward"] - 1, checkpoint.token_name, prompt_ids, checkpoint.mask_id)
    return {"grid": shown(value=drawn.line())}


def lens(element: dict) -> dict[str, dict]:
    """Show the lens of one forward of a recorded run, with a slider to choose another."""
    first = element["forward"]
    return {
        "forward": shown(value=first, maximum=element["forwards"]),
        "lens": shown(value=look_inside(element, first)),
    }


def look_inside(element: dict, forward: int) -> str:
    """Return the lens of a forward of a recorded run."""
    return mask.lens_of(one_run(element), int(forward))


def choose(element: dict) -> dict[str, dict]:
    """Show a choice of runs, pictures or charts, the first of them, and their table and speeds, if any."""
    titles = [option["title"] for option in element["options"]]
    which = shown(choices=titles, value=titles[0], label=element["label"])
    timed = {"measured": shown(value=speeds(element["speeds"]))} if "speeds" in element else {}
    tabled = rows(element) if "rows" in element else {}
    return {"which": which} | timed | tabled | chosen(element, 0)


def chosen(element: dict, index: int) -> dict[str, dict]:
    """Show one of the options, with its text."""
    option = element["options"][index]
    draw = next(draw for key, draw in OPTIONS.items() if key in option)
    return {"words": shown(value=option["words"])} | draw(option)


def recorded(id: str, modes: list[str]) -> str:
    """Return the records of a recorded run in these modes, as JSON lines."""
    runs = [run for run in read_text(recordings.recording(id)) if run.settings.mode in modes]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def one_run(element: dict) -> Run:
    """Return a recorded run in one mode."""
    [run] = read_text(recorded(element["run"], [element["mode"]]))
    return run


def picture(kind: str, block_size: int, new: int) -> str:
    """Return the picture of a mask for the example sentence.

    new: the number of new tokens of a window, or of drafts.
    """
    checkpoint = models.load(models.TINY)
    ids = checkpoint.tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    sizes = {"prompt": len(ids) // 2, "new": new, "block_size": block_size}
    return KINDS[kind].draw(Sentence(ids, checkpoint.mask_id, checkpoint.token_name, **sizes)).line()


# Kinds of options, by the first of these keys that they have.
OPTIONS = {"training": trained, "forward": forward, "run": stage, "picture": grid, "figure": chart}
