"""Skills: everyday text tasks for a small local model, each with an exact grader.

As with the other tasks, one prompt in ten is held out. A skill also has kinds of phrasing or field that
training never sees. A skill needs no knowledge beyond its prompt, and most of an answer follows from its
prompt. Each `Task` of a module here is a skill, and `assets/skills/NAME.json` has its phrasings.
"""

import pkgutil
from importlib import import_module

from mars_demo.tasks.common import Task

_MODULES = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]
_TASKS = [value for module in _MODULES for value in vars(module).values() if isinstance(value, Task)]

# In alphabetical order: in another order, the same seed draws other examples.
SKILLS: dict[str, Task] = {task.name: task for task in sorted(_TASKS, key=lambda task: task.name)}
