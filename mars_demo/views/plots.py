"""Plots, each a function from data to a plotly figure."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from mars_demo.evaluation.accuracy import Row
from mars_demo.evaluation.paper_tables import Point

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
_COLOURS = ("#0072b2", "#c85200", "#00825f", "#b0508a", "#c77f00")
_INK, _GRID = "#808890", "rgba(128,136,144,0.25)"


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
    figure.add_hline(
        base["Avg"], line_dash="dot", annotation_text="AR SFT", annotation_position="bottom right"
    )
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


def frontier(curves: Mapping[str, Sequence[Row | Point]], source: str = "") -> go.Figure:
    """Plot accuracy against tokens per forward, a line per name and a point per τ.

    Lines differ in dashes too, for readers who cannot tell their colours apart.
    """
    figure = go.Figure()
    named = _apart([row for rows in curves.values() for row in rows])
    for number, (name, rows) in enumerate(curves.items()):
        taus = ["" if row.tau is None else f"τ {row.tau:g}" for row in rows]
        figure.add_scatter(
            x=[row.tokens_per_forward for row in rows],
            y=[100 * row.accuracy for row in rows],
            text=[tau if row in named else "" for tau, row in zip(taus, rows)],
            customdata=taus,
            mode="lines+markers+text" if len(rows) > 1 else "markers+text",
            textposition="bottom left",
            name=name,
            line={"dash": _DASHES[number % len(_DASHES)], "color": _COLOURS[number % len(_COLOURS)]},
            marker={"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 9},
            hovertemplate="%{customdata} %{x:.2f} per forward, %{y:.0f} % accuracy"
            "<extra>%{fullData.name}</extra>",
        )
    _dress(figure, "tokens per forward" + (f"<br>{source}" if source else ""), "accuracy, %", 360)
    figure.update_xaxes(rangemode="tozero")
    return figure


def _apart(rows: Sequence[Row | Point]) -> list[Row | Point]:
    """Return the points to label: those far enough from every labelled point before them."""
    reach = max(row.tokens_per_forward for row in rows)
    named: list[Row | Point] = []
    for row in rows:
        if all(
            abs(row.tokens_per_forward - other.tokens_per_forward) > 0.09 * reach
            or abs(row.accuracy - other.accuracy) > 0.09
            for other in named
        ):
            named.append(row)
    return named


def _dress(figure: go.Figure, x: str, y: str, height: int) -> None:
    """Set the axes, with percent on the y-axis, and colours that are readable on light and dark pages."""
    figure.update_layout(
        xaxis_title=x,
        yaxis_title=y,
        yaxis_range=[0, 105],
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        height=height,
        legend={"orientation": "h", "y": 1.02, "yanchor": "bottom"},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 14, "color": _INK},
    )
    figure.update_xaxes(gridcolor=_GRID, zerolinecolor=_GRID)
    figure.update_yaxes(gridcolor=_GRID, zerolinecolor=_GRID)
