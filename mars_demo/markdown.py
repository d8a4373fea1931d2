"""Tables in Markdown, for pages, documents and model cards."""

from pandas import DataFrame


def table(frame: DataFrame) -> str:
    """A frame as a Markdown table, its index left out; a cell without a value is a dash."""
    cells = frame.astype(object).where(frame.notna(), "–")
    cells = cells.map(lambda cell: str(cell).replace("|", "\\|"))
    return cells.to_markdown(index=False, disable_numparse=True)
