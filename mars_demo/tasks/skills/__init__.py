"""Everyday text chores for a small model on one's own machine, each with an exact grader.

As with the worlds, each skill is a file of its own and an entry of a table, and one prompt in ten is held
out. A skill also has kinds of phrasing or of field that training never sees. Nothing in a skill needs
knowledge that its prompt does not give, and most of an answer follows from its prompt.
"""

from mars_demo.tasks.common import Task
from mars_demo.tasks.skills import (
    changelog,
    conversion,
    dates,
    extraction,
    letters,
    lists,
    mending,
    phones,
    quoting,
    receipts,
    records,
    renaming,
    reused,
    sql,
    tables,
)

# The order matters: the same seed draws other examples from the same skills in another order.
SKILLS: dict[str, Task] = {
    task.name: task
    for task in (
        extraction.TASK,
        tables.TASK,
        lists.TASK,
        mending.TASK,
        quoting.TASK,
        letters.TASK,
        changelog.TASK,
        renaming.TASK,
        records.TASK,
        sql.TASK,
        dates.TASK,
        phones.TASK,
        conversion.TASK,
        receipts.TASK,
        reused.STORY_PROBLEMS,
        reused.ONE_LINE_FUNCTIONS,
        reused.NUMBER_TABLES,
    )
}
