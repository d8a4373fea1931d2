"""Markdown tables for pages, documents and model cards."""

from pandas import DataFrame


def table(frame: DataFrame) -> str:
    """Return a frame as a Markdown table without its index; missing values become dashes."""
    cells = frame.astype(object).where(frame.notna(), "–")
    cells = cells.map(lambda cell: str(cell).replace("|", "\\|"))
    return cells.to_markdown(index=False, disable_numparse=True)
