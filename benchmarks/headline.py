"""The README's figures: both MARS models side by side, from the results of other benchmarks."""

from statistics import median

from benchmarks import frontier, llama_cpp, speed, tables
from mars_demo.evaluation import results
from mars_demo.evaluation.frontier import AR, Frontier, Setting
from mars_demo.models.names import CHAT, TINY

MODELS = {TINY: speed.FILE, CHAT: llama_cpp.FILE}  # with the file of its times
ROWS = ("AR: accuracy",) + tuple(
    f"{method}: {figure}"
    for method, figures in {
        "MARS, τ = 0.95": ("tokens per forward", "accuracy", "as fast as AR"),
        "lossless": ("tokens per forward", "answers equal to AR's", "as fast as AR"),
    }.items()
    for figure in figures
)


def table() -> str:
    """Return a row per figure and a column per model."""
    sweeps = {sweep["model"]: Frontier.read(sweep) for sweep in results.read(frontier.FILE)["sweeps"]}
    columns = {
        f"`{model}`, {sweeps[model].title}": column(sweeps[model], file) for model, file in MODELS.items()
    }
    rows = [
        {"one prompt at a time, on a CPU": row} | {title: cells[index] for title, cells in columns.items()}
        for index, row in enumerate(ROWS)
    ]
    files = ", ".join(f"`assets/results/{name}`" for name in (frontier.FILE, *MODELS.values()))
    return tables.shown(rows) + (
        f"\n\n<sub>From {files}, which name their commands, machines and sample sizes. In parentheses: the "
        "smallest and the largest value over several rounds.</sub>"
    )


def column(sweep: Frontier, file: str) -> list[str]:
    """Return the cells of a model, in the order of `ROWS`."""
    settings = (AR, Setting("mars", "probability", 0.95), Setting("lossless"))
    ar, mars, lossless = (sweep.find(setting) for setting in settings)
    equal = sum(outcome.leaves is None for outcome in lossless.outcomes)
    seconds = {row["method"]: row["seconds"] for row in results.read(file)["rows"]}
    baseline = next(name for name in seconds if name == "ar" or name.startswith("ar,"))

    def faster(mode: str) -> str:
        methods = [name for name in seconds if mode in name and name != speed.UNRECORDED]
        best = min(methods, key=lambda name: median(seconds[name]))
        return tables.faster(seconds[best], seconds[baseline])

    return [
        f"{ar.accuracy:.1%}",
        f"{mars.tokens_per_forward:.2f}",
        f"{mars.accuracy:.1%}",
        faster("mars τ = 0.95"),
        f"{lossless.tokens_per_forward:.2f}",
        f"{equal} of {lossless.n}",
        faster("lossless"),
    ]
