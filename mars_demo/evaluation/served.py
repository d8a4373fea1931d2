"""The table of vLLM under load, for the page and the documents."""

from statistics import median

from pandas import DataFrame

from mars_demo.core.markdown import table
from mars_demo.evaluation import results

FILE = "vllm-serving.json"


def tables(measured: dict) -> str:
    """Return a row per method: its speed relative to AR by the requests at once, set by set."""
    base = {(row["set"], row["concurrency"]): row for row in measured["rows"] if row["method"] == "AR"}
    speeds: dict[str, dict[str, list[str]]] = {}
    equal: dict[str, list[tuple[int, int]]] = {}
    for row in measured["rows"]:
        ar, method = base[row["set"], row["concurrency"]], row["method"]
        faster = median(results.ratios(row["seconds"], ar["seconds"])) * row["tokens"] / ar["tokens"]
        at_once = speeds.setdefault(method, {}).setdefault(f"{row['concurrency']} at once", [])
        at_once.append(f"{faster:.2f}")
        equal.setdefault(method, []).append((row["equal"], row["requests"]))
    rows = [
        {"as fast as AR": method}
        | {column: ", ".join(cells) for column, cells in speeds[method].items()}
        | {"answers equal to AR's": "{} of {}".format(*map(sum, zip(*equal[method])))}
        for method in speeds
        if method != "AR"
    ]
    return table(DataFrame(rows))
