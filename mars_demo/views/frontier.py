"""The frontier as a plot: right answers against speed, a line per criterion and a point per τ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from mars_demo.evaluation import paper_tables
from mars_demo.evaluation.frontier import Frontier, Point, curves
from mars_demo.views import plots

AXES = {
    "tokens_per_forward": "tokens per forward",
    "seconds_per_answer": "time per answer in the batch, AR = 1",
}
_SINGLE = {"ar": ("AR", "star"), "lossless": ("lossless", "hexagram")}


def picture(frontier: Frontier, x: str = "tokens_per_forward", paper: bool = False) -> go.Figure:
    """The points of a sweep. A click on one finds mode, criterion, τ and its place in `frontier.points` in
    its `customdata`.

    x: one of `AXES`. Times are given relative to AR's, and have no interval: each was measured once.
    paper: whether the curves of the paper's Table 4 are laid over it; it has no times, so only there.

    Raises:
        ValueError: if there is no such axis.
    """
    if x not in AXES:
        raise ValueError(f"Unknown axis {x!r}. Choose from {', '.join(AXES)}.")
    figure = go.Figure()
    paper = paper and x == "tokens_per_forward"
    lowest = 0.0 if paper else _lowest(frontier)
    places = [_place(frontier, point, x) for point in frontier.points]
    wide = max((x for x, _ in places), default=1) - min((x for x, _ in places), default=0)
    named = plots.apart(places, wide, 1 - lowest)
    for number, (criterion, points) in enumerate(curves(frontier.points).items()):
        look = {
            "mode": "lines+markers+text",
            "line": {"dash": plots.DASHES[number], "color": plots.COLOURS[number]},
            "marker": {"symbol": plots.SYMBOLS[number], "size": 9},
        }
        figure.add_scatter(name=criterion, **look | _data(frontier, points, x, named))
    for mode, (name, symbol) in _SINGLE.items():
        points = [point for point in frontier.points if point.setting.mode == mode]
        look = {"mode": "markers", "marker": {"symbol": symbol, "size": 13, "color": plots.INK}}
        if points:
            figure.add_scatter(name=name, **look | _data(frontier, points, x, named))
    if paper:
        _lay_over(figure)
    plots.dress(figure, _caption(frontier, x), "right answers, %", 540 if paper else 440)
    figure.update_yaxes(range=[100 * lowest, 102], zeroline=False)
    figure.update_xaxes(zeroline=False)
    return figure


def _lowest(frontier: Frontier) -> float:
    """Where the axis of right answers begins, so that points that lie close together can be told apart."""
    ends = [point.accuracy_interval[0] for point in frontier.points]
    return max(0.0, math.floor(20 * min(ends, default=0.0) - 0.5) / 20)


def _caption(frontier: Frontier, x: str) -> str:
    """The axis, and below it what was asked how often of whom. Names of models come from anywhere, and
    plotly reads tags in titles."""
    model = frontier.model.replace("<", "").replace(">", "").replace("&", "")
    return f"{AXES[x]}<br>{model}, {frontier.title}, n = {len(frontier.prompts)}, bars: 95 % over prompts"


def _data(
    frontier: Frontier, points: Sequence[Point], x: str, named: set[tuple[float, float]]
) -> dict[str, Any]:
    """What a trace of these points has: where they are, their bars, their words, and what a click needs."""
    places = [_place(frontier, point, x) for point in points]
    accuracies = [100 * y for _, y in places]
    settings = [point.setting for point in points]
    found = {
        "x": [x for x, _ in places],
        "y": accuracies,
        "text": [
            f"τ {setting.tau:g}" if setting.tau is not None and place in named else ""
            for setting, place in zip(settings, places)
        ],
        "textposition": "bottom left",
        "customdata": [
            [setting.mode, setting.criterion, setting.tau, frontier.points.index(point)]
            for setting, point in zip(settings, points)
        ],
        "hovertext": [_said(frontier, point) for point in points],
        "hovertemplate": "%{hovertext}<extra>%{fullData.name}</extra>",
        "error_y": _bars(accuracies, [[100 * end for end in p.accuracy_interval] for p in points]),
    }
    if x == "tokens_per_forward":
        found["error_x"] = _bars(found["x"], [point.tokens_per_forward_interval for point in points])
    return found


def _place(frontier: Frontier, point: Point, x: str) -> tuple[float, float]:
    """Where a point is: x, and the share of right answers."""
    if x == "tokens_per_forward":
        return point.tokens_per_forward, point.accuracy
    return 1 / (frontier.faster(point) or 1), point.accuracy


def _bars(values: Sequence[float], intervals: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Error bars from each value to the ends of its interval."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(0.0, high - value) for value, (_, high) in zip(values, intervals)],
        "arrayminus": [max(0.0, value - low) for value, (low, _) in zip(values, intervals)],
        "thickness": 1,
        "width": 3,
    }


def _said(frontier: Frontier, point: Point) -> str:
    """A point in words. All of it is made here, nothing by a model."""
    low, high = (100 * end for end in point.accuracy_interval)
    slow, fast = point.tokens_per_forward_interval
    faster = frontier.faster(point)
    tau = "" if point.setting.tau is None else f"τ = {point.setting.tau:g}<br>"
    return (
        f"{tau}{100 * point.accuracy:.1f} % right ({low:.1f} to {high:.1f}), n = {point.n}<br>"
        f"{point.tokens_per_forward:.2f} tokens per forward ({slow:.2f} to {fast:.2f})<br>"
        f"{point.seconds_per_answer:.3g} s per answer"
        + ("" if faster is None else f", {faster:.2f}× as fast as AR")
    )


def _lay_over(figure: go.Figure) -> None:
    """The paper's Table 4, a point per block size, and its curve over τ. They are of other models on other
    tasks."""
    lines = {
        f"the paper, Table 4, {scale}, average of six, τ = 0.95": {f"B = {b}": p for b, p in sizes.items()}
        for scale, sizes in paper_tables.paper_averages().items()
    } | {
        f"the paper, Table {paper_tables.SWEEP}, {name}": {f"τ = {p.tau:g}": p for p in points}
        for name, points in paper_tables.paper_curves().items()
    }
    for number, (name, points) in enumerate(lines.items()):
        figure.add_scatter(
            x=[point.tokens_per_forward for point in points.values()],
            y=[100 * point.accuracy for point in points.values()],
            text=list(points),
            mode="lines+markers",
            name=name,
            line={"dash": "longdashdot", "color": plots.INK, "width": 1},
            marker={"symbol": f"{plots.SYMBOLS[number]}-open", "size": 8},
            hovertemplate="%{text}: %{x:.2f} per forward, %{y:.1f} %<extra>%{fullData.name}</extra>",
        )
    figure.add_annotation(
        text="the paper: other models, other tasks",
        **{"xref": "paper", "yref": "paper", "x": 1, "y": 0, "xanchor": "right", "yanchor": "bottom"},
        showarrow=False,
    )
