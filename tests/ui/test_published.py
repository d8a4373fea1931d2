"""A published checkpoint in a browser: chosen, downloaded with a pause, and raced."""

import pytest
import torch
from huggingface_hub import constants
from playwright.sync_api import expect
from race_tab import dismiss, lane, race, run_button, to_the_end, toast

from mars_demo.ui.hosting.published import NAMES, Published
from mars_demo.ui.hosting.registry import MODELS

NAME, SHORT = NAMES[0], "MARS-Qwen2.5-0.5B-blk8"


@pytest.fixture
def hub(demo, published_hub, monkeypatch):
    """Offer the checkpoint of the hub."""
    offer = Published(NAME, "cpu", torch.float32)
    monkeypatch.setitem(MODELS._offered, NAME, offer)
    monkeypatch.setitem(MODELS._members, NAME, offer)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 10_000)
    return published_hub


def test_a_published_checkpoint_is_downloaded_with_a_pause_and_races(visit, hub):
    page = visit("max_new_tokens=16")
    facts, listed = page.locator("#facts"), page.locator("#model input")
    download, cancel = (
        page.get_by_role("button", name=name, exact=True) for name in ("Download", "Cancel")
    )
    listed.click()
    page.get_by_role("option", name=f"{SHORT} (paper, 1.0 GB, to download)").click()
    expect(facts).to_contain_text("apache-2.0")
    expect(facts).to_contain_text("2.5 GB needed")
    expect(cancel).to_be_hidden()
    run_button(page).click()
    expect(toast(page)).to_contain_text("Press Download")
    dismiss(page)
    assert hub.served == 0

    size = hub.sizes(NAME)["model.safetensors"]
    hub.waits_at = size // 2
    download.click()
    bar = facts.locator("progress")
    expect(bar).to_have_js_property("max", sum(hub.sizes(NAME).values()))
    page.wait_for_function(
        "least => document.querySelector('#facts progress').value >= least", arg=size // 3
    )
    expect(download).to_be_hidden()
    cancel.click()
    expect(cancel).to_be_disabled()
    hub.goes_on.set()
    expect(download).to_be_visible()

    hub.waits_at = None
    download.click()
    expect(facts).to_contain_text("8 masks")
    expect(listed).to_have_value(f"{SHORT} (paper)")
    expect(download).to_be_hidden()
    race(page)
    to_the_end(page)
    expect(lane(page, "mars")).to_be_visible()
