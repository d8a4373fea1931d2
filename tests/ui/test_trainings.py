"""Trainings of several visitors: who may use the results, and cleanup when a visitor leaves."""

import httpx
import pytest
from gradio_client import Client
from gradio_client.exceptions import AppError
from playwright.sync_api import expect
from test_train import finished, open_tab, trains  # noqa: F401
from web import HANG_GUARD, until

from mars_demo.core.limits import LIMITS
from mars_demo.models.load import load_checkpoint
from mars_demo.ui.hosting.registry import MODELS, Trained
from mars_demo.ui.hosting.storage import storage


def client(url: str) -> Client:
    return Client(url, verbose=False, httpx_kwargs={"timeout": HANG_GUARD})


@pytest.mark.full
def test_a_visitor_who_pauses_and_leaves_gives_the_training_slot_back(visit, open_tab):  # noqa: F811
    visit()  # the module's page stays open
    one, two = open_tab(steps=2000), open_tab(steps=1)
    one.locator("#train-run").click()
    trains(one, 2000)
    pause = one.locator("#pause")
    label = pause.inner_text()
    pause.click()
    expect(pause).not_to_have_text(label)
    expect(pause).to_be_enabled()
    two.locator("#train-run").click()
    expect(two.locator("#watched .progress-text, #watched .meta-text").first).to_contain_text("queue")
    one.close()
    finished(two, steps=1)
    [name] = MODELS._trained
    MODELS.delete(name)  # as if its retention time had passed
    two.locator("#race-it").click()
    expect(two.get_by_test_id("toast-body")).to_contain_text(f"{LIMITS.kept} ")
    two.close()
    until(lambda: not MODELS._trained)
    left = ("*.safetensors", "mine-*.zip")
    until(lambda: not any(file for name in left for file in storage().root.rglob(name)))


def test_a_trained_model_is_usable_only_by_its_visitor(url):
    one, two = client(url), client(url)
    messages = []
    made = Trained("mine-0a0b0c0d", str(storage().folder()), "ready", owner=one.session_hash)
    made.checkpoint = load_checkpoint("mars-tiny")
    MODELS._trained[made.name] = made
    assert one.predict("Hello", model=made.name, max_new_tokens=4, api_name="/generate")
    for name in (made.name, "mine-00000000"):
        with pytest.raises(AppError) as caught:
            two.predict("Hello", model=name, max_new_tokens=4, api_name="/generate")
        messages.append(str(caught.value).replace(name, "X"))
    MODELS.delete(made.name)
    assert messages[0] == messages[1]  # as if it did not exist
    assert "X" in messages[0] and "mars-tiny" in messages[0] and "mine-" not in messages[0]


def test_files_are_refused(url):
    response = httpx.post(f"{url}gradio_api/upload", files={"files": b"x"})
    assert response.status_code == 404
    assert not storage().gradio.exists() or not list(storage().gradio.rglob("upload"))
