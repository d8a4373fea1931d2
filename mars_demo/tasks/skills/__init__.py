"""Skills: everyday text tasks for a small local model, each with an exact grader.

As with the other tasks, each skill is a module and an entry of a table, and one prompt in ten is held out.
A skill also has kinds of phrasing or field that training never sees. A skill needs no knowledge beyond its
prompt, and most of an answer follows from its prompt.
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

# The order matters: in another order, the same seed draws other examples.
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
