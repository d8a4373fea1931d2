"""Skills: everyday text tasks for a small local model, each with an exact grader.

As with the other tasks, one prompt in ten is held out. A skill also has kinds of phrasing or field that
training never sees. A skill needs no knowledge beyond its prompt, and most of an answer follows from its
prompt. Each `Task` of a module here is a skill, and `assets/skills/NAME.json` has its phrasings.
"""

from mars_demo.tasks.common import tasks_in

SKILLS = tasks_in(__name__, __path__)  # in another order, the same seed draws other examples
