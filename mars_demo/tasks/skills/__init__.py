"""Skills: everyday text tasks for a small local model, each with an exact grader.

As with the other tasks, one prompt in ten is held out. A skill also has kinds of phrasing or field that
training never sees. A skill needs no knowledge beyond its prompt, and most of an answer follows from its
prompt. Each module here with a `TASK` is a skill, and `assets/skills/NAME.json` has its phrasings.
"""

import pkgutil
from importlib import import_module

from mars_demo.tasks.common import Task

_MODULES = [import_module(f"{__name__}.{found.name}") for found in pkgutil.iter_modules(__path__)]

# In alphabetical order of modules: in another order, the same seed draws other examples.
SKILLS: dict[str, Task] = {module.TASK.name: module.TASK for module in _MODULES if hasattr(module, "TASK")}
