"""The task `tables` of mars-tiny with more phrasings."""

from mars_demo.tasks import tables
from mars_demo.tasks.skills.reused import as_skill

TASK = as_skill(tables.TASK, "number-tables")
