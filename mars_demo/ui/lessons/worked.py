"""The worked step beside a chapter."""

from mars_demo.ui.components.worked_step import worked
from mars_demo.ui.lessons.parts import shown


def worked_step(wanted: dict) -> dict[str, dict]:
    """Windows with the chapter's τ and scores, to be moved."""
    return {"worked_step": shown(value=worked(wanted["tau"], wanted["scores"]))}
