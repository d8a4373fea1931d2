"""Trained models of visitors: their owners, their number, and when they are deleted."""

import contextlib

import gradio as gr
import pytest
from gradio.context import LocalContext
from web import until

from mars_demo.ui.hosting import owned, visitors


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
    """Store a checkpoint as a training does."""
    model = owned.take_slot()
    owned.hold(model.name, checkpoint, model.folder)
    owned.keep(model)
    return model


def test_a_new_model_replaces_the_earlier_one_and_models_of_others_count(mars_tiny, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_TRAINED", "2")
    first = trained(mars_tiny)
    with visiting("two"):
        other = trained(mars_tiny)
    second = trained(mars_tiny)
    assert [*owned._models] == [other.name, second.name]
    assert not first.folder.exists() and second.folder.exists()
    with visiting("three"), pytest.raises(ValueError, match="2"):
        owned.take_slot()


def test_leaving_and_age_delete_a_model_with_its_files(mars_tiny, monkeypatch, tmp_path):
    left = trained(mars_tiny)
    archive = tmp_path / "mine.zip"
    archive.touch()
    left.files.append(archive)
    visitors.leave("one")
    assert not (left.folder.exists() or archive.exists() or owned._models)
    monkeypatch.setattr(owned, "MINUTE", 1e-4)
    old = trained(mars_tiny)
    until(lambda: not old.folder.exists())
