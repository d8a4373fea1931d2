"""`python app.py` in a browser, with models named by the operator."""

import json
import shutil

import pytest
from child_app import started
from playwright.sync_api import expect
from race_tab import dismiss, race, stage, to_the_end, toast
from random_models import publish, random_model

from mars_demo.models.export.save import save_checkpoint
from mars_demo.ui.drawing import Drawing
from mars_demo.ui.page import App

pytestmark = pytest.mark.full

PUBLISHED, PLAIN, BROKEN = "MARS-Random-blk8", "plain-qwen2", "broken"


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tokenizer):
    """Return the folders of a published checkpoint, an AR model and damaged weights."""
    parent = tmp_path_factory.mktemp("models")
    model = random_model("qwen2", tokenizer, context=512)
    save_checkpoint(model, tokenizer, parent / PLAIN, block_size=None)
    publish(parent / PUBLISHED, model, tokenizer, licence="<img src=x onerror=alert(1)> ${1+1}")
    shutil.copytree(parent / PLAIN, parent / BROKEN)
    (parent / BROKEN / "model.safetensors").write_bytes(b"no weights")
    return [parent / PUBLISHED, parent / PLAIN, parent / BROKEN]


@pytest.fixture(scope="module")
def operator_url(folders):
    """Return the URL of `python app.py` that serves these models and no bundled one."""
    named = [part for folder in folders for part in ("--model", str(folder))]
    with started("app.py", *named, "--only", "--host", "127.0.0.1") as child:
        yield f"{child.wait_for_url()}/"


def test_loading_is_shown(visit):
    with App() as demo:
        Drawing("facts", json.dumps({"phase": "loading", "problem": None, "facts": []}))
    _, url, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    try:
        page = visit(base_url=url)
        expect(page.locator("#facts .sentence")).not_to_be_empty()
        assert page.locator("#facts progress").evaluate("bar => bar.position") == -1  # indeterminate
    finally:
        demo.close()


def facts(page):
    return page.locator("#facts dl")


def raced(page) -> list[str]:
    """Race to the end, and return the modes of the lanes."""
    expect(facts(page)).to_be_visible()
    page.locator("#watch input").uncheck()  # answers of random weights end at the limit only
    race(page)
    to_the_end(page)
    return page.locator(".lane").evaluate_all("lanes => lanes.map(lane => lane.dataset.lane)")


def test_the_first_model_is_the_default_and_a_published_checkpoint_races(visit, operator_url):
    page = visit(base_url=operator_url)
    expect(page.locator("#model input")).to_have_value(PUBLISHED)
    expect(facts(page)).to_contain_text("8 masks")
    expect(facts(page)).to_contain_text("<img src=x onerror=alert(1)> ${1+1}")  # a licence is shown as text
    expect(page.locator(".recordings option")).to_have_count(1)  # runs of the bundled models are absent
    assert raced(page)[:2] == ["ar", "mars"]


def test_an_ar_model_races_in_its_modes(visit, operator_url):
    page = visit(f"model={PLAIN}", base_url=operator_url)
    expect(page.locator("#mode label")).to_have_count(1)
    assert raced(page) == ["ar", "jacobi"]
    answers = page.locator("#stage .lane .answer")
    expect(answers.last).to_have_text(answers.first.text_content())


def test_a_damaged_model_gets_a_message_and_affects_no_other(visit, operator_url):
    page = visit(f"model={BROKEN}", base_url=operator_url)
    sentence = page.locator("#facts .sentence")
    expect(sentence).to_contain_text(BROKEN)
    page.locator("#run").click()
    expect(toast(page)).to_contain_text(BROKEN)
    dismiss(page)
    expect(page.locator("#run")).to_be_enabled()
    expect(stage(page)).to_have_attribute("data-state", "empty")
    page.locator("#model input").click()
    page.get_by_role("option", name=PLAIN).click()
    expect(sentence).to_be_hidden()
    raced(page)
