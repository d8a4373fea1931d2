"""Plots, each a function from data to a plotly figure."""

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.express as px
import plotly.graph_objects as go
from pandas import DataFrame, isna

from mars_demo.evaluation.calibration import Calibration
from mars_demo.evaluation.frontier import COLUMNS, Frontier

_COLOURS = ("#2080c8", "#d2601a", "#0a8f6b", "#c0609a", "#b87300")  # on light and on dark pages
FEWEST = 20  # slots of a point
_BELOW = {"annotation_position": "bottom right"}
_INK, _GRID, _FAINT = "#808890", "rgba(128,136,144,0.25)", "rgba(128,136,144,0.5)"


def ar_share(block_sizes: Sequence[int]) -> go.Figure:
    """Plot the share of positions that train AR: 1/B, with the SFT loss (1 + 1/B)/2 (section 3.2)."""
    x, y = "block size B", "AR-like positions, %"
    rows = [{"name": "with the SFT loss", x: b, y: 100 * (1 + 1 / b) / 2} for b in block_sizes]
    rows += [{"name": "without", x: b, y: 100 / b} for b in block_sizes]
    return _lines(rows, x, y, ":.1f", height=240)


def paper_sft_loss(rows: Sequence[Mapping]) -> go.Figure:
    """Plot the paper's Table 3: average at one token per forward by B, with and without the SFT loss."""
    x, y = "block size B (the paper, 0.5B, Table 3)", "average over six benchmarks, %"
    shown = [
        {"name": name, x: row["block_size"], y: row["Avg"]}
        for name, sft_loss in (("with the SFT loss", True), ("without", False))
        for row in rows
        if (row["model"], row["scale"], row["sft_loss"]) == ("MARS", "0.5B", sft_loss)
    ]
    figure = _lines(shown, x, y, range_y=(0, 40))
    base = next(row for row in rows if row["model"] == "AR SFT")
    return figure.add_hline(base["Avg"], line_dash="dot", annotation_text="AR SFT", **_BELOW)


def plot_costs(measured: Mapping[str, Sequence[Sequence[float]]]) -> go.Figure:
    """Plot the cost of a forward by its number of positions, relative to a forward with one position.

    measured: the points of each curve by its name; a point is k and milliseconds per forward.
    """
    x, y = "positions of a forward, k", "c(k) ÷ c(1)"
    rows = [
        {"name": name, x: k, y: ms / points[0][1]} for name, points in measured.items() for k, ms in points
    ]
    figure = _lines(rows, x, y, ":.2f").update_yaxes(range=None, rangemode="tozero")
    limit = "limit: further positions are free"
    return figure.add_hline(1, line_dash="dot", annotation_text=limit, **_BELOW)


def plot_curves(named: Mapping[str, Sequence[Sequence[float]]]) -> go.Figure:
    """Plot accuracy against tokens per forward, a line per name, from points of τ and both."""
    x = "tokens per forward"
    rows = [
        {"name": name, x: speed, "accuracy": accuracy, "τ": tau}
        for name, points in named.items()
        for tau, accuracy, speed in points
    ]
    return _by_tau(rows, x).update_xaxes(rangemode="tozero").update_yaxes(range=(0, 1.05))


def plot_sweep(frontier: Frontier, across: str) -> go.Figure:
    """Plot accuracy against a column of a sweep, with intervals over prompts; hover shows all columns."""
    rows = []
    for point in frontier.points:
        row = {"name": point.setting.line, "τ": point.setting.tau}
        for axis, name in (("x", across), ("y", "accuracy")):
            value = row[name] = COLUMNS[name].value(frontier, point)
            low, high = COLUMNS[name].interval(frontier, point) or (value, value)
            row |= {f"error_{axis}": high - value, f"error_{axis}_minus": value - low}
        rows.append(row | {"text": "<br>".join(map(": ".join, frontier.texts(point).items()))})
    errors = {name: name for name in rows[0] if name.startswith("error")}
    figure = _by_tau(rows, across, height=420, hover_name="text", **errors)
    bars = {"color": _FAINT, "thickness": 1, "width": 3}
    return figure.update_traces(hovertemplate="%{hovertext}<extra></extra>", error_x=bars, error_y=bars)


def plot_calibration(measured: Calibration) -> go.Figure:
    """Plot the share of slots with AR's token against their score, a line per group of slots.

    A point is a bin of scores with at least `FEWEST` slots. A thin line shows calibration.
    """
    x, y = "mean score of slots", "slots with AR's token"
    rows = [
        {"name": one.slots, x: one.score, y: one.right / one.count, "slots": one.count}
        for one in measured.bins
        if one.count >= FEWEST
    ]
    figure = _lines(rows, x, y, range_y=(0, 1.04), hover_data={x: ":.3f", y: ":.1%", "slots": True})
    line = {"dash": "dashdot", "color": _INK, "width": 1}
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line=line, name="share = score", hoverinfo="skip")
    return figure.update_xaxes(range=(0, 1.03)).update_yaxes(tickformat=".0%")


def _by_tau(rows: Sequence[Mapping], x: str, **settings: Any) -> go.Figure:
    """Plot accuracy against `x`, with τ beside the points that have one and enough room."""
    frame = DataFrame(rows)
    places = frame[[x, "accuracy"]].to_numpy(float)
    room = (places.max(0) - places.min(0)) * (0.2, 0.12)
    labels: list[str] = []
    for at, tau in enumerate(frame["τ"]):
        others = (places[other] for other in range(at) if labels[other])
        is_near = any((abs(places[at] - other) <= room).all() for other in others)
        labels.append("" if isna(tau) or is_near else f"τ {tau:g}")
    settings |= {"text": "label", "hover_data": {"label": False, "τ": True, "accuracy": ":.1%"}}
    figure = _lines(frame.assign(label=labels), x, "accuracy", **settings)
    figure.update_traces(textposition="bottom left")
    return figure.update_yaxes(range=None, tickformat=".0%")


def _lines(
    rows: Sequence[Mapping] | DataFrame, x: str, y: str, form: str | bool = True, **settings: Any
) -> go.Figure:
    """Plot a line per `name`, readable on light and dark pages; columns name the axes.

    Lines differ in dashes and marks too, not in colours alone.

    form: the format of y on hover. settings: further ones of `px.line`.
    """
    settings = {"height": 360, "range_y": (0, 105), "hover_data": {y: form}} | settings
    by_name = dict.fromkeys(("color", "line_dash", "symbol"), "name")
    figure = px.line(rows, x, y, markers=True, color_discrete_sequence=_COLOURS, **by_name, **settings)
    figure.update_traces(marker_size=9)
    figure.update_layout(
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        dragmode=False,  # else a finger cannot scroll the page across the chart
        legend={
            "title": None,
            "orientation": "h",
            **{"xref": "container", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"},
            **{"font": {"size": 13}, "itemdoubleclick": False},
        },
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 14, "color": _INK},
    )
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_GRID)
    return figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_GRID)
