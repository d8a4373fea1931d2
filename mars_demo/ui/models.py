"""The models the app serves: the bundled ones, each loaded once and shared by all visitors."""

import json
import threading

from mars_demo.trace import Run

TRAINED = 4  # checkpoints that visitors have trained and that are kept, the newest

_loaded = {}
_trained = {}
_lock = threading.RLock()


def _library():
    """The modules that run models, imported on first use: the page is there before torch is.

    One thread at a time: transformers cannot be imported by two at once.
    """
    with _lock:
        from mars_demo import checkpoints, decoding

        return checkpoints, decoding


def names() -> list[str]:
    """What a visitor may choose from, best first."""
    checkpoints, _ = _library()
    return checkpoints.bundled()


def racers() -> list[str]:
    """Those of them that were trained with masks."""
    checkpoints, _ = _library()
    configs = {name: checkpoints.ASSETS / name / "config.json" for name in names()}
    return [name for name, path in configs.items() if json.loads(path.read_text()).get("block_size")]


def load(name: str | None = None):
    """The checkpoint of that name, or the best one.

    Raises:
        ValueError: if it is none of `names()`: visitors do not make the server fetch or open anything.
    """
    checkpoints, _ = _library()
    if name in _trained:
        return _trained[name]
    served = names()
    name = name or next(iter(served), None)
    if name not in served:
        raise ValueError(f"There is no model {name!r} here; there are {', '.join(served) or 'none'}.")
    with _lock:
        if name not in _loaded:
            _loaded[name] = checkpoints.load(name)
        return _loaded[name]


def fresh(name: str):
    """A copy of a served checkpoint that may be changed.

    Raises:
        ValueError: as `load` does.
    """
    checkpoints, _ = _library()
    if name in _trained:
        raise ValueError(f"{name} was trained here and cannot be a base; there are {', '.join(names())}.")
    return checkpoints.load(load(name).name)


def keep(checkpoint) -> str:
    """Serve a checkpoint that was trained here to whoever knows its name, until newer ones push it out."""
    with _lock:
        _trained[checkpoint.name] = checkpoint
        for old in list(_trained)[:-TRAINED]:
            del _trained[old]
    return checkpoint.name


def decode(name: str | None, prompt: str, **settings) -> Run:
    """A run of that model, not yet begun; `settings` are those of `decoding.decode`.

    Raises:
        ValueError: if one of them is out of its range.
    """
    _, decoding = _library()
    return decoding.decode(load(name), prompt, **settings)


def warm_up() -> None:
    """Load the best model and run it once, so that the first visitor need not wait for that."""
    if names():
        decode(None, "Hello", max_new_tokens=2).finish()
