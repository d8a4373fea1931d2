"""Trained models of visitors: their owners, their number, their download, and when they are deleted."""

import contextlib
import gc
import io
import shutil
import weakref
import zipfile
from collections.abc import Callable

import gradio as gr
import pytest
import torch
from gradio.context import LocalContext
from starlette.applications import Starlette
from starlette.testclient import TestClient

from mars_demo.core.assets import ASSETS
from mars_demo.decoding.request import Request
from mars_demo.models.export import card
from mars_demo.models.facts import front_matter
from mars_demo.models.load import load_checkpoint
from mars_demo.ui.hosting import archive
from mars_demo.ui.hosting.registry import MODELS, Caller, Registry, Trained
from mars_demo.ui.racing import decode_for_visitor


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


@pytest.fixture
def trained(tmp_path, mars_tiny) -> Callable[[], Trained]:
    """Return a function that keeps a model as after a training."""
    folder = tmp_path / "trained"
    shutil.copytree(ASSETS / "mars-tiny", folder)
    card.write_recipe(folder, mars_tiny, {"objective": "mars", "data": "tasks"})
    return lambda: MODELS.keep(MODELS.reserve(), folder, "cpu")


def test_a_new_model_replaces_the_earlier_one_and_models_of_others_count(trained, monkeypatch):
    monkeypatch.setenv("MARS_DEMO_TRAINED", "2")
    first = trained()
    with visiting("two"):
        other = trained()
    second = trained()
    assert [*MODELS._trained] == [other.name, second.name]
    assert MODELS.own(second.name) and not MODELS.own(first.name) and not MODELS.own(other.name)
    with visiting("three"), pytest.raises(ValueError, match="2"):
        MODELS.reserve()


def test_the_zip_of_a_model_loads_and_is_sent_once(trained, tmp_path):
    model = trained()
    client = TestClient(Starlette(routes=[archive.ROUTE]))
    assert client.get(f"/{archive.PREFIX}/None").status_code == 404
    url = f"/{archive.url_of(model)}"
    zipped = zipfile.ZipFile(io.BytesIO(client.get(url).content))
    assert client.get(url).status_code == 404
    zipped.extractall(tmp_path / "loaded")
    loaded = load_checkpoint(str(tmp_path / "loaded"), "cpu")
    assert (loaded.block_size, loaded.objective) == (8, "mars")
    ids = torch.tensor([[5, 6, 7, 8]])
    torch.testing.assert_close(loaded.model(ids).logits, model.checkpoint.model(ids).logits)
    assert "mars" in front_matter(tmp_path / "loaded")["tags"]


def test_a_model_of_a_caller_without_a_session_is_usable_by_nobody(trained):
    with visiting(None):
        model = trained()
        assert MODELS.own(model.name) is None
    MODELS.delete(model.name)


def test_a_process_acts_for_a_caller_with_their_model(trained):
    model = trained()
    caller, other = MODELS.caller(), Registry()
    with visiting("two"):
        assert MODELS.caller().models == {}
    token = LocalContext.request.set(None)
    try:
        other.act_for(caller)
        copied = other.load(model.name)
        other.act_for(caller)
        assert other.load(model.name) is copied  # loaded once
        ids = torch.tensor([[5, 6, 7, 8]])
        torch.testing.assert_close(copied.model(ids).logits, model.checkpoint.model(ids).logits)
        other.act_for(Caller("two", {}))
        with pytest.raises(ValueError, match=model.name):
            other.load(model.name)
    finally:
        LocalContext.request.reset(token)


def test_a_deleted_model_leaves_no_weights_after_decoding(trained):
    model = trained()
    checkpoint = MODELS.load(model.name)
    run = decode_for_visitor(checkpoint, "Sort 3, 1 and 2", Request("mars", max_new_tokens=4))
    next(run)
    weights = weakref.ref(checkpoint.model.get_input_embeddings().weight)
    MODELS.delete(model.name)
    run.finish()  # a run in progress goes on
    with pytest.raises(ValueError, match=model.name):
        MODELS.load(model.name)
    del checkpoint, model, run
    gc.collect()
    assert weights() is None
