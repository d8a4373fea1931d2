"""Plots, each a function from data to a plotly figure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from mars_demo.evaluation import frontier as sweeps
from mars_demo.evaluation.accuracy import Row
from mars_demo.evaluation.frontier import ACROSS, COLUMNS
from mars_demo.evaluation.measured_costs import relative
from mars_demo.evaluation.paper_tables import Point, paper_curves

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
_COLOURS = ("#2080c8", "#d2601a", "#0a8f6b", "#c0609a", "#b87300")  # on light and on dark pages
_BELOW = {"annotation_position": "bottom right"}
_INK, _GRID, _FAINT = "#808890", "rgba(128,136,144,0.25)", "rgba(128,136,144,0.5)"


def ar_share(block_sizes: Sequence[int], chosen: int) -> go.Figure:
    """Plot the share of positions that train AR: 1/B, with the SFT loss (1 + 1/B)/2 (section 3.2)."""
    shares = [100 * (1 + 1 / b) / 2 for b in block_sizes], [100 / b for b in block_sizes]
    figure = _sft_loss([(block_sizes, each) for each in shares])
    figure.update_traces(
        marker_size=[14 if b == chosen else 7 for b in block_sizes],
        hovertemplate="B = %{x}: %{y:.1f} %<extra>%{fullData.name}</extra>",
    )
    _dress(figure, "block size B", "AR-like positions, %", 240)
    return figure


def paper_sft_loss(rows: Sequence[Mapping]) -> go.Figure:
    """Plot the paper's Table 3: average at one token per forward by B, with and without the SFT loss."""
    mars = [row for row in rows if row["model"] == "MARS" and row["scale"] == "0.5B"]
    sides = ([row for row in mars if row["sft_loss"] == sft] for sft in (True, False))
    points = [zip(*((row["block_size"], row["Avg"]) for row in side)) for side in sides]
    figure = _sft_loss(points)
    base = next(row for row in rows if row["model"] == "AR SFT")
    figure.add_hline(base["Avg"], line_dash="dot", annotation_text="AR SFT", **_BELOW)
    _dress(figure, "block size B (the paper, 0.5B, Table 3)", "average over six benchmarks, %", 360)
    figure.update_yaxes(range=[0, 40])
    return figure


def _sft_loss(sides: Iterable[Iterable[Sequence]]) -> go.Figure:
    """Plot two lines by B, each given as x and y: with and without the SFT loss."""
    figure = go.Figure()
    for number, (name, (x, y)) in enumerate(zip(("with the SFT loss", "without"), sides)):
        line = {"dash": _DASHES[number], "color": _COLOURS[number]}
        marker = {"symbol": _SYMBOLS[number], "size": 9}
        figure.add_scatter(x=list(x), y=y, name=name, mode="lines+markers", line=line, marker=marker)
    return figure


def costs(measured: Sequence[Mapping]) -> go.Figure:
    """Plot the cost of a forward by its number of positions, relative to a forward with one position.

    measured: the `title` and `points` of each curve; a point is k and milliseconds per forward.
    """
    figure = go.Figure()
    for one in measured:
        x, y = zip(*((k, relative(one["points"], k)) for k, _ in one["points"]))
        name = one["title"]
        hover = [f"{name}<br>{k} positions cost {cost:.2f} times as much as 1" for k, cost in zip(x, y)]
        _add_line(figure, name, x, y, [None] * len(x), hover)
    figure.add_hline(1, line_dash="dot", annotation_text="limit: further positions are free", **_BELOW)
    _dress(figure, "positions of a forward, k", "c(k) ÷ c(1)", 360)
    figure.update_yaxes(range=None, rangemode="tozero")
    return figure


def frontier(curves: Mapping[str, Sequence[Row | Point]], source: str = "") -> go.Figure:
    """Plot accuracy against tokens per forward, a line per name and a point per τ."""
    figure = go.Figure()
    for name, rows in curves.items():
        _add_rows(figure, name, rows)
    _label(figure)
    _dress(figure, "tokens per forward" + (f"<br>{source}" if source else ""), "accuracy", 360)
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(range=[0, 1.05], tickformat=".0%")
    return figure


def sweep(swept: sweeps.Frontier, across: str, paper: bool = False) -> go.Figure:
    """Plot accuracy against a column of a sweep, with intervals over prompts; hover shows all columns.

    paper: add the paper's τ sweep, which has tokens per forward only.
    """
    figure = go.Figure()
    for name, points in swept.lines().items():
        x, y = ([COLUMNS[axis].value(swept, point) for point in points] for axis in (across, "accuracy"))
        hover = ["<br>".join(map(": ".join, swept.texts(point).items())) for point in points]
        _add_line(figure, name, x, y, [point.setting.tau for point in points], hover)
        figure.data[-1].update(error_x=_bars(across, points, x), error_y=_bars("accuracy", points, y))
    if paper and across == ACROSS[0]:
        for name, rows in paper_curves().items():
            _add_rows(figure, f"paper, {name.split(',')[0]}", rows)
            figure.data[-1].update(line_color=_INK, marker_color=_INK)
    _label(figure)
    _dress(figure, across, "accuracy", 420)
    figure.update_yaxes(range=None, tickformat=".0%")
    return figure


def _add_rows(figure: go.Figure, name: str, rows: Sequence[Row | Point]) -> None:
    x, y = [row.tokens_per_forward for row in rows], [row.accuracy for row in rows]
    hover = [f"{name}<br>{across:.2f} tokens per forward, {up:.1%} accuracy" for across, up in zip(x, y)]
    _add_line(figure, name, x, y, [row.tau for row in rows], hover)


def _add_line(
    figure: go.Figure,
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    taus: Sequence[float | None],
    hover: Sequence[str],
) -> None:
    """Add a line with a point per τ. Lines differ in dashes and marks too, not in colours alone."""
    number = len(figure.data)
    figure.add_scatter(
        x=x,
        y=y,
        text=["" if tau is None else f"τ {tau:g}" for tau in taus],
        hovertext=hover,
        hovertemplate="%{hovertext}<extra></extra>",
        mode="lines+markers+text",
        textposition="bottom left",
        name=name,
        line={"dash": _DASHES[number % len(_DASHES)], "color": _COLOURS[number % len(_COLOURS)]},
        marker={"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 9},
    )


def _bars(name: str, points: Sequence[sweeps.Point], values: Sequence[float]) -> dict[str, Any] | None:
    """Return the error bars of a column's intervals, if it has them."""
    if (interval := COLUMNS[name].interval) is None:
        return None
    low, high = zip(*map(interval, points))
    above = [end - value for value, end in zip(values, high)]
    below = [value - end for value, end in zip(values, low)]
    return {
        "symmetric": False,
        "array": above,
        "arrayminus": below,
        "color": _FAINT,
        "thickness": 1,
        "width": 3,
    }


def _label(figure: go.Figure) -> None:
    """Keep only the labels of points that are far enough from every labelled point before them."""
    axes = zip((0.2, 0.12), zip(*((line.x, line.y) for line in figure.data)))
    reach = [share * (max(map(max, axis)) - min(map(min, axis))) for share, axis in axes]
    labelled: list[tuple] = []
    for line in figure.data:
        texts = []
        for text, *place in zip(line.text, line.x, line.y):
            is_near = (all(abs(a - b) <= r for a, b, r in zip(place, other, reach)) for other in labelled)
            texts.append("" if any(is_near) else text)
            labelled += [place] if texts[-1] else []
        line.text = texts


def _dress(figure: go.Figure, x: str, y: str, height: int) -> None:
    """Set the axes, with percent on the y-axis, and colours that are readable on light and dark pages."""
    figure.update_layout(
        xaxis_title=x,
        yaxis_title=y,
        yaxis_range=[0, 105],
        margin={"l": 60, "r": 20, "t": 30, "b": 50},
        height=height,
        dragmode=False,  # else a finger cannot scroll the page across the chart
        legend={
            "orientation": "h",
            **{"xref": "container", "x": 0, "yref": "container", "y": 0, "yanchor": "bottom"},
            **{"font": {"size": 13}, "itemdoubleclick": False},
        },
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 14, "color": _INK},
    )
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_GRID)
    figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_GRID)
