"""The models of the page by name: those that its owner serves, and to their owners those of visitors
(`ui.owned`). A name is looked up in the thread of the handler that it was given to."""

import argparse
import contextlib
import json
import threading
import time
import weakref
from dataclasses import replace
from typing import Any

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.limits import LIMITS, refuse_long
from mars_demo.models.names import bundled
from mars_demo.models.pool import Pool, library
from mars_demo.scheduler import BACKGROUND, SCHEDULER
from mars_demo.ui import owned
from mars_demo.ui.storage import pathless
from mars_demo.views import recordings

TINY = "mars-tiny"  # it knows the built-in worlds, which lessons, batches and trainings are about
BASE = "ar-tiny"  # what TINY was trained from

_pool = Pool(bundled())
_lessons = Pool([TINY, BASE])  # where the owner leaves out the bundled models
_measured = weakref.WeakKeyDictionary()  # models and what their forwards cost; None while unknown
_lock = threading.RLock()


def serve(options: argparse.Namespace) -> None:
    """Serve the models that the owner names, before a page is built: see `ui.options`."""
    global _pool
    named = options.models
    own = [] if options.only else [name for name in bundled() if name not in named]
    _pool = Pool([*named, *own], options.device, options.dtype, options.block_size)


def pool() -> Pool:
    """The models that are served, for whoever serves them in another way too."""
    return _pool


def names() -> list[str]:
    """What a visitor may choose from, the default first."""
    return _pool.names()


def is_served(name: str) -> bool:
    return name in _pool.names()


def is_known(name: str) -> bool:
    """Whether it is served, or the visitor has trained it and it is still kept."""
    return is_served(name) or owned.trained(name) is not None


def recorded() -> list[dict]:
    """The recorded runs of the models that are served, those of the default model first."""
    served = names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def knows(name: str) -> str | None:
    """What a model was trained on, in a sentence; None of those about which nothing is written."""
    return read_json("models.json").get(name)


def knows_worlds(name: str) -> bool:
    """Whether a model was trained on the built-in worlds alone: the tiny ones, and those made of them."""
    return not is_served(name) or name in (BASE, TINY)


def card(name: str) -> str:
    """The model card of a bundled model without its front matter; empty where there is none."""
    path = ASSETS / name / "README.md"
    if name not in bundled() or not path.exists():
        return ""
    return path.read_text("utf-8").split("---\n", 2)[-1].strip()


def state(name: str) -> str:
    """How far a model is and what it is, as the value of `ModelFacts`."""
    if checkpoint := owned.trained(name):
        _, _, facts = library()
        return _told("ready", facts=facts.facts(checkpoint))
    found = _pool.member(name)
    return _told(found.phase, found.done, found.total, found.problem, found.facts)


def _told(phase, done=0, total=0, problem=None, facts=None) -> str:
    shown = facts.shown() if facts else []
    told = {"phase": phase, "done": done, "total": total, "problem": problem, "facts": shown}
    return json.dumps(told)


def is_settled(name: str) -> bool:
    """Whether a model is there or cannot be had, so that nothing about it is going to change."""
    return owned.trained(name) is not None or _pool.member(name).phase in ("ready", "failed")


def modes(name: str) -> tuple[str, ...] | None:
    """The modes that a model has, its default first; None before it is known."""
    if checkpoint := owned.trained(name):
        return checkpoint.modes
    facts = _pool.member(name).facts
    return facts and facts.modes


def begin(name: str) -> None:
    """Begin to load a model that is served, unless that was done."""
    if owned.trained(name) is None:
        _pool.begin(name)


def load(name: str | None = None):
    """The checkpoint of that name, or the default one. Waits until it is there.

    Raises:
        ValueError: if it is neither served nor the visitor's own, or cannot be had: visitors do not make
            the server fetch or open anything.
    """
    if checkpoint := owned.trained(name):
        return checkpoint
    if name in (TINY, BASE) and not is_served(name):
        return _lessons.load(name)
    return _pool.load(name)


def fresh(name: str):
    """Return a private copy of a served checkpoint, in float32, to train.

    Raises:
        ValueError: if it is not served, or too large.
    """
    loading, _, _ = library()
    import torch

    stored(name)
    member = _pool.member(name)
    if member.facts.parameters > LIMITS.parameters * 1_000_000:
        raise ValueError(
            f"{name} has {member.facts.parameters / 1e6:.0f} million parameters. "
            f"At most {LIMITS.parameters} million can be trained here."
        )
    with pathless(member.source, name):
        return loading.load_checkpoint(member.source, dtype=torch.float32)


def stored(name: str) -> int:
    """Return the bytes that the saved weights of a base take, in 16 bits each.

    Raises:
        ValueError: if there is no such base.
    """
    if not is_served(name):
        raise ValueError(f"Unknown base {name!r}. Choose from {', '.join(names())}.")
    _pool.load(name)
    return 2 * _pool.member(name).facts.parameters


def know_trained(model: owned.Owned) -> None:
    """A model has been trained, perhaps in another process: then it is only looked at in this one."""
    if model.checkpoint is None:
        loading, _, _ = library()
        with pathless(model.folder, model.name):
            found = loading.load_checkpoint(str(model.folder), device="cpu")
        model.checkpoint = replace(found, name=model.name)
    model.since, model.ready = time.monotonic(), True


def decode(checkpoint, prompt: str, request: Request, **more: Any) -> Run:
    """Return a run that has not begun; its windows follow what forwards cost, if that is known.

    more: as in `decoding.decode`.

    Raises:
        ValueError: as `decoding.decode`, or if the prompt and the messages are longer than `LIMITS.prompt`.
    """
    refuse_long(prompt or "", *(message["content"] for message in more.get("messages", ())))
    from mars_demo.decoding.decode import decode  # imports torch, which loading has done by now

    return decode(checkpoint, prompt, replace(request, costs=_costs(checkpoint)), **more)


def _costs(checkpoint):
    """What its forwards cost, if that is known; if not, it begins to be measured while nothing runs."""
    from mars_demo.decoding import cost_store, costs

    if not costs.is_measurable(checkpoint) or cost_store.folder() is None:
        return None
    with _lock:
        if checkpoint.model not in _measured:
            _measured[checkpoint.model] = cost_store.load(checkpoint)
            if _measured[checkpoint.model] is None:
                threading.Thread(target=_measure, args=[checkpoint], daemon=True).start()
        return _measured[checkpoint.model]


def _measure(checkpoint) -> None:
    """Measure what its forwards cost, one at a time while nothing runs."""
    from mars_demo.decoding import cost_store, costs

    def steps():
        if found := (yield from costs.measuring(checkpoint)):
            cost_store.save(checkpoint, found)
            _measured[checkpoint.model] = found

    for _ in SCHEDULER.scheduled(steps, BACKGROUND)():
        pass


def warm_up() -> None:
    """Load the models and run the first one once, so that the first visitor need not wait for that."""
    with SCHEDULER.running():  # its costs are measured afterwards
        with contextlib.suppress(ValueError):  # the page says what is wrong with it
            decode(load(), "Hello", Request(max_new_tokens=2)).finish()
        _pool.load_all()


def load_all() -> None:
    """Load every model that is served, and the one of the lessons."""
    _pool.load_all()
    with contextlib.suppress(ValueError):
        load(TINY)
