"""Figures of recorded runs and masks, alone or as a choice of several."""

from mars_demo.decoding.trace import read_text
from mars_demo.ui import models
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.lessons.tables import chart, speeds
from mars_demo.ui.tabs import mask
from mars_demo.views import recordings
from mars_demo.views.mask_picture import KINDS, Sentence

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


def lens(element: dict) -> dict[str, dict]:
    """Show the lens of one forward of a recorded run, with a slider to choose another."""
    first = element["forward"]
    return {
        "forward": shown(value=first, maximum=element["forwards"]),
        "lens": shown(value=look_inside(element, first)),
    }


def look_inside(element: dict, forward: int) -> str:
    """Return the lens of a forward of a recorded run."""
    [run] = read_text(recorded(element["run"], [element["mode"]]))
    return mask.lens_of(run, int(forward))


def choose(element: dict) -> dict[str, dict]:
    """Show a choice of runs, pictures or charts, the first of them, and their measurements, if any."""
    titles = [option["title"] for option in element["options"]]
    which = shown(choices=titles, value=titles[0], label=element["label"])
    timed = {"measured": shown(value=speeds(element["speeds"]))} if "speeds" in element else {}
    return {"which": which} | timed | chosen(element, 0)


def chosen(element: dict, index: int) -> dict[str, dict]:
    """Show one of the options, with its text."""
    option = element["options"][index]
    draw = next(draw for key, draw in OPTIONS.items() if key in option)
    return {"words": shown(value=option["words"])} | draw(option)


def recorded(id: str, modes: list[str]) -> str:
    """Return the records of a recorded run in these modes, as JSON lines."""
    runs = [run for run in read_text(recordings.recording(id)) if run.settings.mode in modes]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def picture(kind: str, block_size: int, new: int) -> str:
    """Return the picture of a mask for the example sentence.

    new: the number of new tokens of a window, or of drafts.
    """
    checkpoint = models.load(models.TINY)
    ids = checkpoint.tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    sizes = {"prompt": len(ids) // 2, "new": new, "block_size": block_size}
    return KINDS[kind].draw(Sentence(ids, checkpoint.mask_id, checkpoint.token_name, **sizes)).line()


OPTIONS = {"run": stage, "picture": grid, "figure": chart}  # kinds of options, by the key that they have
