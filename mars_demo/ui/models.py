"""The models of the page by name: those that the operator serves, and each visitor's own (`ui.owned`). A
name is looked up in the thread of its handler."""

import argparse
import contextlib
import json
import threading
import weakref
from dataclasses import replace
from typing import Any

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding.request import Request
from mars_demo.decoding.trace import Run
from mars_demo.limits import LIMITS, refuse_long
from mars_demo.models.names import bundled
from mars_demo.models.pool import Member, Pool, library
from mars_demo.scheduler import BACKGROUND, SCHEDULER
from mars_demo.ui import owned
from mars_demo.ui.storage import pathless
from mars_demo.views import recordings

TINY = "mars-tiny"  # of lessons, batches and trainings
BASE = "ar-tiny"  # what TINY was trained from
WARM_TOKENS = 8

_pool = Pool(bundled())
_lessons = Pool([TINY, BASE])  # where the operator leaves out the bundled models
_measured = weakref.WeakKeyDictionary()  # what forwards cost by model; None while unknown
_lock = threading.RLock()


def serve(options: argparse.Namespace) -> None:
    """Serve the models that the operator names, before a page is built: see `ui.options`."""
    global _pool
    named = options.models
    own = [] if options.only else [name for name in bundled() if name not in named]
    _pool = Pool([*named, *own], options.device, options.dtype, options.block_size)


def pool() -> Pool:
    return _pool


def names() -> list[str]:
    """Return the names to choose from, the default first."""
    return _pool.names()


def is_served(name: str) -> bool:
    return name in _pool.names()


def is_known(name: str) -> bool:
    """Return whether it is served, or the visitor's own trained model."""
    return is_served(name) or owned.trained(name) is not None


def recorded() -> list[dict]:
    """Return the recorded runs of the served models, those of the default model first."""
    served = names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def knows(name: str) -> str | None:
    """Return what a model was trained on, in a sentence, if that is written down."""
    return read_json("models.json").get(name)


def knows_worlds(name: str) -> bool:
    """Return whether a model was trained on the built-in tasks alone: a tiny one, or trained here."""
    return not is_served(name) or name in (BASE, TINY)


def card(name: str) -> str:
    """Return the model card of a bundled model without its front matter; empty for others."""
    path = ASSETS / name / "README.md"
    if name not in bundled() or not path.exists():
        return ""
    return path.read_text("utf-8").split("---\n", 2)[-1].strip()


def _member(name: str) -> Member:
    if checkpoint := owned.trained(name):
        _, _, facts = library()
        return Member(name, name, "ready", facts=facts.facts(checkpoint))
    return _pool.member(name)


def state(name: str) -> str:
    """Return how far a model is loaded and what it is, as the value of `ModelFacts`."""
    member = _member(name)
    fields = {field: getattr(member, field) for field in ("phase", "done", "total", "problem")}
    return json.dumps(fields | {"facts": member.facts.shown() if member.facts else []})


def is_settled(name: str) -> bool:
    """Return whether a model is loaded or cannot be."""
    return _member(name).phase in ("ready", "failed")


def modes(name: str) -> tuple[str, ...] | None:
    """Return the modes of a model, its default first; None before they are known."""
    facts = _member(name).facts
    return facts and facts.modes


def begin(name: str) -> None:
    """Begin to load a served model, unless that was done."""
    if owned.trained(name) is None:
        _pool.begin(name)


def load(name: str | None = None):
    """Return the checkpoint of that name, or the default one, once it is loaded.

    Raises:
        ValueError: if it is neither served nor the visitor's own, or cannot be loaded.
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
    """Load a model that was trained in another process, and call it ready."""
    if model.checkpoint is None:
        loading, _, _ = library()
        with pathless(model.folder, model.name):
            found = loading.load_checkpoint(str(model.folder), device="cpu")
        model.checkpoint = replace(found, name=model.name)
    owned.keep(model)


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
    """Return what its forwards cost, or begin to measure that while nothing runs."""
    from mars_demo.decoding import costs

    if not costs.is_measurable(checkpoint) or costs.folder() is None:
        return None
    with _lock:
        if checkpoint.model not in _measured:
            _measured[checkpoint.model] = costs.load(checkpoint)
            if _measured[checkpoint.model] is None:
                threading.Thread(target=_measure, args=[checkpoint], daemon=True).start()
        return _measured[checkpoint.model]


def _measure(checkpoint) -> None:
    """Measure what its forwards cost, one at a time while nothing runs."""
    from mars_demo.decoding import costs

    def steps():
        if found := (yield from costs.measuring(checkpoint)):
            costs.save(checkpoint, found)
            _measured[checkpoint.model] = found

    for _ in SCHEDULER.scheduled(steps, BACKGROUND)():
        pass


def warm_up() -> None:
    """Load the models and run the first one, before the first visitor comes: in the modes of the page, with
    each shape twice, so that a GPU has captured it."""
    with SCHEDULER.running():  # its costs are measured afterwards
        with contextlib.suppress(ValueError):  # the page says what is wrong with it
            checkpoint = load()
            for mode in {"ar", "mars"}.intersection(checkpoint.modes):
                decode(checkpoint, "Hello", Request(mode, max_new_tokens=WARM_TOKENS)).finish()
        _pool.load_all()


def load_all() -> None:
    """Load every model that is served, and the one of the lessons."""
    _pool.load_all()
    with contextlib.suppress(ValueError):
        load(TINY)
