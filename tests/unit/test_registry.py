"""Trained models of visitors: their owners, their number, and when they are deleted."""

import contextlib
import gc
import shutil
import weakref

import gradio as gr
import pytest
from gradio.context import LocalContext
from web import until

from mars_demo.core.assets import ASSETS
from mars_demo.decoding.request import Request
from mars_demo.ui.hosting import registry
from mars_demo.ui.hosting.registry import MODELS, Trained
from mars_demo.ui.racing import decode
from mars_demo.ui.tabs.train import zipped


@contextlib.contextmanager
def visiting(session: str):
    """Set the session as Gradio does around a handler."""
    token = LocalContext.request.set(gr.Request(session_hash=session))
    try:
        yield
    finally:
        LocalContext.request.reset(token)


@pytest.fixture(autouse=True)
def visitor():
    with visiting("one"):
        yield
    for session in ("one", "two"):
        MODELS.delete_of(session)
    assert not MODELS._trained


def trained() -> Trained:
    """Register a model as after a training."""
    model = MODELS.reserve()
    shutil.copytree(ASSETS / "mars-tiny", model.folder, dirs_exist_ok=True)
    MODELS.register(model)
    return model


def test_a_new_model_replaces_the_earlier_one_and_models_of_others_count(monkeypatch):
    monkeypatch.setenv("MARS_DEMO_TRAINED", "2")
    first = trained()
    with visiting("two"):
        other = trained()
    second = trained()
    assert [*MODELS._trained] == [other.name, second.name]
    assert not first.folder.exists() and second.folder.exists()
    with visiting("three"), pytest.raises(ValueError, match="2"):
        MODELS.reserve()


def test_leaving_and_age_delete_a_model_with_its_files(monkeypatch):
    left = trained()
    zipped(left)
    assert left.archive.exists()
    MODELS.delete_of("one")
    assert not (left.folder.exists() or left.archive.exists() or MODELS._trained)
    monkeypatch.setattr(registry, "MINUTE", 1e-4)
    old = trained()
    until(lambda: not old.folder.exists())


def test_a_deleted_model_leaves_no_weights_after_decoding_and_an_attention_picture():
    model = trained()
    checkpoint = MODELS.load(model.name)
    run = decode(checkpoint, "Sort 3, 1 and 2", Request("mars", max_new_tokens=4))
    next(run)
    weights = weakref.ref(checkpoint.model.get_input_embeddings().weight)
    MODELS.delete(model.name)
    run.finish()  # a run in progress goes on
    with pytest.raises(ValueError, match=model.name):
        MODELS.load(model.name)
    del checkpoint, model, run
    gc.collect()
    assert weights() is None
