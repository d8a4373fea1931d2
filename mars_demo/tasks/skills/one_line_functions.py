"""The task `functions` of mars-tiny with more phrasings."""

from mars_demo.tasks import functions
from mars_demo.tasks.skills.reused import as_skill

TASK = as_skill(functions.TASK, "one-line-functions")
