"""The tables of vLLM under load, for the page and the documents."""

from collections.abc import Callable
from statistics import median

from pandas import DataFrame

from mars_demo.core.markdown import table
from mars_demo.evaluation import results

FILE = "vllm-serving.json"


def tables(measured: dict) -> str:
    """Return throughputs, latencies, and the number of answers that equal AR's."""

    def rate(row: dict, base: dict) -> str:
        return f"{row['tokens'] / median(row['seconds']):.0f} ({faster(row, base):.2f}×)"

    def latency(row: dict, base: dict) -> str:
        both = [[f"{median(times):.0f}" for times in row[name].values()] for name in ("ttft", "tpot")]
        return "; ".join(", ".join(one) for one in both)

    equal: dict[str, list[int]] = {}
    for row in measured["rows"]:
        counts = equal.setdefault(row["method"], [0, 0])
        counts[0], counts[1] = counts[0] + row["equal"], counts[1] + row["requests"]
    same = [f"{method}: {one} of {every}" for method, (one, every) in equal.items() if method != "AR"]
    return "\n\n".join(
        [
            _by_concurrency(measured, "tokens/s (ratio to AR)", rate),
            _by_concurrency(measured, "TTFT p50, p95; TPOT p50, p95 (ms)", latency),
            f"Answers equal to AR's at the same number of requests. {'; '.join(same)}.",
        ]
    )


def faster(row: dict, base: dict) -> float:
    """Return the ratio of the tokens per second to those of the base."""
    return median(results.ratios(row["seconds"], base["seconds"])) * row["tokens"] / base["tokens"]


def _by_concurrency(measured: dict, title: str, cell: Callable[[dict, dict], str]) -> str:
    """Return a table per set of prompts: methods by requests at once; `cell` gets a row and AR's."""
    base: dict[tuple, dict] = {}
    sets: dict[str, dict[str, dict]] = {}
    for row in measured["rows"]:
        ar = base.setdefault((row["set"], row["concurrency"]), row)  # AR comes first
        shown = sets.setdefault(row["set"], {}).setdefault(row["method"], {})
        shown.setdefault(f"{row['set']}: {title}", row["method"])
        shown[f"{row['concurrency']} at once"] = cell(row, ar)
    return "\n\n".join(table(DataFrame([*methods.values()])) for methods in sets.values())
