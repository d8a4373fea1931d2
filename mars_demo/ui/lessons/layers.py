"""The lens of a recorded run's forwards beside a chapter."""

from mars_demo.decoding.trace import read_runs
from mars_demo.ui.lessons.parts import shown
from mars_demo.ui.lessons.recorded import recorded
from mars_demo.ui.tabs import mask


def lens(wanted: dict) -> dict[str, dict]:
    """One forward, and a slider to choose another."""
    first = wanted["forward"]
    return {
        "forward": shown(value=first, maximum=wanted["forwards"]),
        "lens": shown(value=look_inside(wanted, first)),
    }


def look_inside(wanted: dict, forward: int) -> str:
    """The lens of a forward of a recorded run."""
    [run] = read_runs(recorded(wanted["run"], [wanted["mode"]]).splitlines())
    return mask.lens_of(run, int(forward))
