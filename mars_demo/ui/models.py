"""The models of the page by name: those that the operator serves, and each visitor's own.

A name is looked up in the thread of its handler, which identifies the visitor; see `ui.hosting.owned`.
"""

import argparse
import contextlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from mars_demo.assets import ASSETS, read_json
from mars_demo.decoding import decode as decoding
from mars_demo.decoding.engine import Engine
from mars_demo.decoding.pace import measured
from mars_demo.decoding.request import Request
from mars_demo.decoding.strategy import Forward, compute
from mars_demo.decoding.trace import Run
from mars_demo.layout import window
from mars_demo.limits import LIMITS, refuse_long
from mars_demo.models.checkpoint import Checkpoint
from mars_demo.models.facts import facts
from mars_demo.models.load import load_checkpoint
from mars_demo.models.names import BASE, TINY, bundled
from mars_demo.models.pool import Member, Pool
from mars_demo.models.runtime.captured import WIDTH
from mars_demo.scheduler import SCHEDULER
from mars_demo.ui.hosting import owned
from mars_demo.ui.hosting.main_thread import MAIN
from mars_demo.ui.hosting.storage import pathless
from mars_demo.views import recordings

WARM_TOKENS = 8


def _loaded(load: Callable[[], Checkpoint]) -> Checkpoint:
    """Return a loaded checkpoint with the costs of its forwards."""
    return measured(MAIN.run(load))


_pool = Pool(bundled(), run=_loaded)
_lessons = Pool([TINY, BASE], run=_loaded)  # used if the operator leaves out the bundled models


def serve(options: argparse.Namespace) -> None:
    """Serve the models that the operator names (see `ui.options`); call this before building a page."""
    global _pool
    named = options.models
    own = [] if options.only else [name for name in bundled() if name not in named]
    _pool = Pool([*named, *own], options.device, options.dtype, options.block_size, _loaded)


def pool() -> Pool:
    return _pool


def names() -> list[str]:
    """Return the names of the served models, the default first."""
    return _pool.names()


def is_served(name: str) -> bool:
    return name in _pool.names()


def is_known(name: str) -> bool:
    """Return whether a model is served or the visitor's own."""
    return is_served(name) or owned.trained(name) is not None


def recorded() -> list[dict]:
    """Return the recorded runs of the served models, those of the default model first."""
    served = names()
    shown = [entry for entry in recordings.index() if entry["model"] in served]
    return sorted(shown, key=lambda entry: entry["model"] != served[0])


def description(name: str) -> str | None:
    """Return a description of what a model can do, if there is one."""
    return read_json("models.json").get(name)


def knows_tasks_only(name: str) -> bool:
    """Return whether a model was trained on the built-in tasks alone."""
    return not is_served(name) or name in (BASE, TINY)


def card(name: str) -> str:
    """Return the model card of a bundled model without its front matter; "" for other models."""
    path = ASSETS / name / "README.md"
    if name not in bundled() or not path.exists():
        return ""
    return path.read_text("utf-8").split("---\n", 2)[-1].strip()


def _member(name: str) -> Member:
    if checkpoint := owned.trained(name):
        return Member(name, name, "ready", facts=facts(checkpoint))
    return _pool.member(name)


def state(name: str) -> str:
    """Return a model's loading state and facts, as JSON for the facts component."""
    member = _member(name)
    fields = {field: getattr(member, field) for field in ("phase", "done", "total", "problem")}
    return json.dumps(fields | {"facts": member.facts.shown() if member.facts else []})


def is_settled(name: str) -> bool:
    """Return whether the loading of a model has ended, successfully or not."""
    return _member(name).phase in ("ready", "failed")


def modes(name: str) -> tuple[str, ...] | None:
    """Return the modes of a model, its default first; None while they are unknown."""
    facts = _member(name).facts
    return facts and facts.modes


def begin(name: str) -> None:
    """Begin to load a served model, unless it was begun before."""
    if owned.trained(name) is None:
        _pool.begin(name)


def load(name: str | None = None):
    """Load and return the checkpoint of that name, by default the page's first.

    Raises:
        ValueError: if the model is neither served nor the visitor's own, or cannot be loaded.
    """
    if checkpoint := owned.trained(name):
        return checkpoint
    if name in (TINY, BASE) and not is_served(name):
        return _lessons.load(name)
    return _pool.load(name)


def fresh(name: str):
    """Return a private float32 copy of a served checkpoint for training.

    Raises:
        ValueError: if it is not served or too large.
    """
    stored(name)
    member = _pool.member(name)
    if member.facts.parameters > LIMITS.parameters * 1_000_000:
        raise ValueError(
            f"{name} has {member.facts.parameters / 1e6:.0f} million parameters. "
            f"At most {LIMITS.parameters} million can be trained here."
        )
    with pathless(member.source, name):
        return load_checkpoint(member.source, dtype=torch.float32, for_training=True)


def stored(name: str) -> int:
    """Return the size in bytes of a base's weights, saved in 16 bits each.

    Raises:
        ValueError: if there is no such base.
    """
    if not is_served(name):
        raise ValueError(f"Unknown base {name!r}. Choose from {', '.join(names())}.")
    _pool.load(name)
    return 2 * _pool.member(name).facts.parameters


def keep_trained(model: owned.Owned) -> None:
    """Load a trained model, unless it was trained in this process, measure it and mark it as ready."""
    if model.checkpoint is None:
        with pathless(model.folder, model.name):
            checkpoint = load_checkpoint(str(model.folder), device="cpu")
        model.checkpoint = replace(checkpoint, name=model.name)
    model.checkpoint = measured(model.checkpoint)
    owned.keep(model)


def decode(checkpoint, prompt: str, request: Request, **more: Any) -> Run:
    """Return a run that has not begun; its windows adapt to the costs of forwards, unless one is given.

    more: as in `decoding.decode`.

    Raises:
        ValueError: as in `decoding.decode`, or if the prompt and messages are longer than `LIMITS.prompt`.
    """
    refuse_long(prompt or "", *(message["content"] for message in more.get("messages", ())))
    return decoding.decode(checkpoint, prompt, replace(request, adaptive=True), **more)


def warm_up() -> None:
    """Load the models, and run the first one in the page's modes before the first visitor comes."""
    with SCHEDULER.running():
        with contextlib.suppress(ValueError):  # the page shows the error
            checkpoint = load()
            for mode in {"ar", "mars"}.intersection(checkpoint.modes):
                decode(checkpoint, "Hello", Request(mode, max_new_tokens=WARM_TOKENS)).finish()
                if checkpoint.captured:
                    _run_shapes(checkpoint, Request(mode).fitted(checkpoint))
        _pool.load_all()


def _run_shapes(checkpoint, request: Request) -> None:
    """Run the forward after each number of accepted tokens twice, so that a GPU captures its CUDA graph.

    Do so after a short text and after a longer one, whose attention is wider.
    """
    engine, masks = Engine(checkpoint.decoder), request.window - 1

    def run(new: int, masks: int, keep: int) -> None:
        layout = window([0] * new, masks, checkpoint.mask_id, engine.length)
        compute(engine, Forward(layout, first=new - 1), request.acceptance)
        engine.commit(keep)

    for past in (1, WIDTH):
        run(past, 0, keep=past)
        for count in [*range(1, request.window + 1)] * 2:
            run(count, masks, keep=0)


def load_all() -> None:
    """Load all served models and the model of the lessons."""
    _pool.load_all()
    with contextlib.suppress(ValueError):
        load(TINY)
