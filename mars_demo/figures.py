"""Figures, each a function from data to a plotly figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from mars_demo import pictures
from mars_demo.evaluation import Row

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
_COLOURS = ("#0072b2", "#c85200", "#00825f", "#b0508a", "#c77f00")


def ar_share(block_sizes: Sequence[int], chosen: int) -> go.Figure:
    """The share of positions that train AR behaviour, with the SFT loss and without (section 3.2)."""
    figure = go.Figure()
    for number, (name, sft) in enumerate((("with the SFT loss", True), ("without", False))):
        figure.add_scatter(
            x=list(block_sizes),
            y=[100 * pictures.ar_share(b, sft) for b in block_sizes],
            name=name,
            mode="lines+markers",
            line={"dash": _DASHES[number], "color": _COLOURS[number]},
            marker={"symbol": _SYMBOLS[number], "size": [14 if b == chosen else 7 for b in block_sizes]},
            hovertemplate="B = %{x}: %{y:.1f} %<extra>%{fullData.name}</extra>",
        )
    _dress(figure, "block size B", "AR-like positions, %", 240)
    return figure


def paper_sft_loss(rows: Sequence[Mapping]) -> go.Figure:
    """The paper's Table 3: the average at one token per forward as blocks grow, with SFT loss or not."""
    figure = go.Figure()
    for number, (name, sft) in enumerate((("with the SFT loss", True), ("without", False))):
        found = [
            row
            for row in rows
            if row["model"] == "MARS" and row["sft_loss"] == sft and row["scale"] == "0.5B"
        ]
        figure.add_scatter(
            x=[row["block_size"] for row in found],
            y=[row["Avg"] for row in found],
            name=name,
            mode="lines+markers",
            line={"dash": _DASHES[number], "color": _COLOURS[number]},
            marker={"symbol": _SYMBOLS[number], "size": 9},
        )
    base = next(row for row in rows if row["model"] == "AR SFT")
    figure.add_hline(base["Avg"], line_dash="dot", annotation_text="AR SFT")
    _dress(figure, "block size B (the paper, 0.5B, Table 3)", "average over six benchmarks, %", 360)
    figure.update_yaxes(range=[0, 40])
    return figure


def frontier(curves: Mapping[str, Sequence[Row]]) -> go.Figure:
    """Accuracy against tokens per forward: a line per name, a point per τ. Lines differ in dashes too."""
    figure = go.Figure()
    for number, (name, rows) in enumerate(curves.items()):
        figure.add_scatter(
            x=[row.tokens_per_forward for row in rows],
            y=[100 * row.accuracy for row in rows],
            text=["" if row.tau is None else f"τ {row.tau:g}" for row in rows],
            mode="lines+markers+text" if len(rows) > 1 else "markers+text",
            textposition="top center",
            name=name,
            line={"dash": _DASHES[number % len(_DASHES)], "color": _COLOURS[number % len(_COLOURS)]},
            marker={"symbol": _SYMBOLS[number % len(_SYMBOLS)], "size": 9},
            hovertemplate="%{text} %{x:.2f} per forward, %{y:.0f} % right<extra>%{fullData.name}</extra>",
        )
    _dress(figure, "tokens per forward", "right answers, %", 360)
    figure.update_xaxes(rangemode="tozero")
    return figure


def _dress(figure: go.Figure, x: str, y: str, height: int) -> None:
    """Percent upwards, and colours that are readable on light and on dark."""
    figure.update_layout(
        xaxis_title=x,
        yaxis_title=y,
        yaxis_range=[0, 105],
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        height=height,
        legend={"orientation": "h", "y": 1.12},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 14, "color": "#808890"},
    )
    figure.update_xaxes(gridcolor="rgba(128,136,144,0.25)")
    figure.update_yaxes(gridcolor="rgba(128,136,144,0.25)")
