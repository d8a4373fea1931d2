"""Recorded runs and pictures of masks beside a chapter; one of several to choose from."""

from mars_demo.decoding.trace import read_runs
from mars_demo.ui import models
from mars_demo.ui.lessons.measured import speeds
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.lessons.tables import chart
from mars_demo.views import recordings

SENTENCE = "Which city is the capital of Latvia? The capital of Latvia is Riga."


def stage(wanted: dict) -> dict[str, dict]:
    """A recorded run with some of its modes."""
    return {"stage": shown(value=recorded(wanted["run"], wanted["modes"]))}


def race(wanted: dict) -> dict[str, dict]:
    """A recorded run, and a slider and buttons to race it again."""
    return {"stage": shown(value=recorded(wanted["prompt"], ["ar", "mars"])), "live": shown()}


def grid(wanted: dict) -> dict[str, dict]:
    """The mask of one layout."""
    return {"grid": shown(value=picture(wanted["picture"], wanted["block_size"], wanted.get("new", 2)))}


def choose(wanted: dict) -> dict[str, dict]:
    """The first of several runs, pictures or charts, and the choice; below it what was measured of them, if
    anything."""
    titles = [option["title"] for option in wanted["options"]]
    which = shown(choices=titles, value=titles[0], label=wanted["label"])
    timed = {"measured": shown(value=speeds(wanted["speeds"]))} if "speeds" in wanted else {}
    return {"which": which} | timed | chosen(wanted, 0)


def chosen(wanted: dict, index: int) -> dict[str, dict]:
    """One of several, and what is said of it."""
    option = wanted["options"][index]
    draw = next(draw for key, draw in OPTIONS.items() if key in option)
    return {"words": shown(value=option["words"])} | draw(option)


def recorded(id: str, modes: list[str]) -> str:
    """The records of a recorded run in these modes, as JSON lines."""
    text = recordings.recording(id).split("\n", 1)[1]
    runs = [run for run in read_runs(text.splitlines()) if run.settings.mode in modes]
    return "".join(f"{line}\n" for run in runs for line in run.lines())


def picture(kind: str, block_size: int, new: int) -> str:
    """A kind of mask of the example sentence; `new` counts the new tokens of a window, or the drafts."""
    models.library()  # its import of the model code waits for any other that is under way
    from mars_demo.views.mask_picture import KINDS, Sentence

    checkpoint = models.load(models.TINY)
    ids = checkpoint.tokenizer(SENTENCE, add_special_tokens=False)["input_ids"]
    sizes = {"prompt": len(ids) // 2, "new": new, "block_size": block_size}
    return KINDS[kind].draw(Sentence(ids, checkpoint.mask_id, checkpoint.token_name, **sizes)).line()


OPTIONS = {"run": stage, "picture": grid, "figure": chart}  # what one of several may be, by what it names
