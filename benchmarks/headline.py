"""The five rows of the README, from the results of other benchmarks."""

from statistics import median

from benchmarks import batches, frontier, load, speed, tables
from mars_demo.evaluation import results, throughput
from mars_demo.evaluation.frontier import AR, Frontier, Point, Setting

SOURCES = (frontier.FILE, speed.FILE, batches.FILE, load.FILE)


def table() -> str:
    cells = [*_alone(), *_together()]
    rows = [dict(zip(("`mars-tiny`, on a CPU", "quality", "speed"), row)) for row in cells]
    files = ", ".join(f"`assets/results/{name}`" for name in SOURCES)
    return tables.shown(rows) + (
        f"\n\n<sub>From {files}, which name their commands and machines. In parentheses: the smallest and "
        "the largest value over several rounds.</sub>"
    )


def _alone() -> list[list[str]]:
    """Return the rows of one prompt at a time."""
    sweeps = map(Frontier.read, results.read(frontier.FILE)["sweeps"])
    tiny = next(sweep for sweep in sweeps if sweep.model == "mars-tiny")
    settings = (AR, Setting("mars", "probability", 0.95), Setting("lossless"))
    ar, tau, lossless = (tiny.find(setting) for setting in settings)
    equal = sum(one.leaves is None for one in lossless.outcomes)
    seconds = {row["method"]: row["seconds"] for row in results.read(speed.FILE)["rows"]}
    best = min((name for name in seconds if "lossless" in name), key=lambda name: median(seconds[name]))

    def faster(method: str) -> str:
        return f"{tables.faster(seconds[method], seconds['ar'])} as fast as AR"

    def per_forward(point: Point) -> str:
        return f"{point.tokens_per_forward:.2f} tokens per forward"

    return [
        [
            "MARS, τ = 0.95, one prompt",
            f"{per_forward(tau)}, {tau.accuracy:.1%} right (AR {ar.accuracy:.1%})",
            faster(speed.RECORDED),
        ],
        [
            "lossless, one prompt",
            f"{per_forward(lossless)}, {equal} of {lossless.n} answers equal AR's",
            faster(best),
        ],
        [
            "transformers' `generate`, one prompt",
            "one token per forward",
            f"{faster('transformers generate')} here",
        ],
    ]


def _together() -> list[list[str]]:
    """Return the rows of batches and of load."""
    eight = {name: row["seconds"] for name, row in batches.by_size()[8].items()}
    cursor = eight[f"MARS τ = {throughput.TAU:g}, cursor cache"]
    ar, controlled = load.burst()
    return [
        [
            "MARS, τ = 0.95, batches of 8, cursor cache",
            "every row gives the tokens it gives alone",
            f"{tables.faster(cursor, eight[throughput.BASELINE])} as fast as AR in the same batch",
        ],
        [
            "a burst of requests, τ set by the queue",
            f"{controlled['accuracy']:.1%} right (AR {ar['accuracy']:.1%})",
            f"p95 latency {controlled['latency']['p95']:.2f} s (AR {ar['latency']['p95']:.2f} s)",
        ],
    ]
