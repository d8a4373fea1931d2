"""Trained models of visitors: whose they are, how many are kept, and when they are deleted."""

import contextlib

import gradio as gr
import pytest
from gradio.context import LocalContext

from mars_demo.ui import owned, visitors


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
        visitors.leave(session)
    assert not owned._models


def trained(checkpoint) -> owned.Owned:
    """Keep a checkpoint as a training does."""
    model = owned.take_slot()
    owned.hold(model.name, checkpoint, model.folder)
    model.ready = True
    return model


def test_a_full_store_deletes_the_oldest_model_of_the_same_visitor(mars_tiny, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_TRAINED", "2")
    first = trained(mars_tiny)
    with visiting("two"):
        other = trained(mars_tiny)
    second = trained(mars_tiny)
    assert [*owned._models] == [other.name, second.name]
    assert not first.folder.exists() and second.folder.exists()
    with visiting("three"), pytest.raises(ValueError, match="2"):
        owned.take_slot()


def test_a_visitor_who_leaves_and_old_age_delete_models_with_their_files(mars_tiny, monkeypatch, tmp_path):
    monkeypatch.setenv("MARS_DEMO_KEPT", "2")
    model = trained(mars_tiny)
    archive = tmp_path / "mine.zip"
    archive.touch()
    model.files.append(archive)
    model.since -= 60
    owned.forget_old()
    assert model.folder.exists() and archive.exists()
    model.since -= 60
    owned.forget_old()
    assert not (model.folder.exists() or archive.exists() or owned._models)

    left = trained(mars_tiny)
    visitors.leave("one")
    assert not left.folder.exists()
