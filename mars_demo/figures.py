"""Figures, each a function from data to a plotly figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from mars_demo.evaluation import Row

_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
_COLOURS = ("#0072b2", "#c85200", "#00825f", "#b0508a", "#c77f00")


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
    figure.update_layout(
        xaxis_title="tokens per forward",
        yaxis_title="right answers, %",
        yaxis_range=[0, 105],
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        height=360,
        legend={"orientation": "h", "y": 1.12},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"size": 14, "color": "#808890"},
    )
    figure.update_xaxes(rangemode="tozero", gridcolor="rgba(128,136,144,0.25)")
    figure.update_yaxes(gridcolor="rgba(128,136,144,0.25)")
    return figure
