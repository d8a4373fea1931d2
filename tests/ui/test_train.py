"""The Train tab in a real browser: a few steps of real training."""

import io
import json
import re
import shutil
import zipfile

import pytest
from playwright.sync_api import Page, expect
from torch.nn.modules.module import register_module_forward_pre_hook

from mars_demo.assets import ASSETS
from mars_demo.limits import LIMITS
from mars_demo.training import watching
from mars_demo.ui import owned
from mars_demo.ui.tabs import train


@pytest.fixture
def open_tab(visit, monkeypatch):
    monkeypatch.setattr(train, "CURVE_PROMPTS", 1)  # the table at the end is as it is, of fewer answers

    def open_it(steps: int = 3) -> Page:
        page = visit()
        page.get_by_role("tab", name="Train").click()
        expect(page.locator("#base input")).to_have_value("ar-tiny")
        page.locator("#steps input[type=number]").fill(str(steps))
        page.locator("#steps input[type=number]").press("Enter")
        page.locator("#watched textarea").fill("How many meters is 3 kilometers?")
        return page

    return open_it


def upload(page: Page, archive) -> None:
    with page.expect_file_chooser() as chooser:
        page.locator("#upload").click()
    chooser.value.set_files(archive)


def progress(page: Page):
    return page.locator("#curves .progress")


def finished(page: Page) -> None:
    expect(page.locator("#before-after table")).to_be_visible(timeout=120_000)
    expect(page.locator("#train")).to_be_enabled()


def record() -> list[dict]:
    """The recorded training that the page opens with."""
    return [json.loads(line) for line in watching.recording(watching.index()[0]["id"]).splitlines()]


def text_of(answer: dict) -> str:
    passes = [line for line in answer["record"] if "pass" in line]
    return "".join(slot["text"] for step in passes for slot in step["slots"][: step["accepted"]])


def test_the_tab_opens_on_a_recorded_training_that_scrubs_and_plays_without_the_server(visit):
    lines = record()
    steps = [line for line in lines if "step" in line]
    page = visit("tab=train")
    expect(page.locator("#curves .note")).to_contain_text("This is a recording")
    expect(page.locator("#curves .note")).to_contain_text(lines[0]["machine"])
    expect(page.locator("#base input")).to_have_value("ar-tiny")
    page.context.set_offline(True)
    page.locator("#curves .held-out summary").click()
    head = page.locator("#curves .playhead")
    for step in (len(steps), len(steps) // 2, 3, 1):
        head.fill(str(step))
        expect(progress(page)).to_contain_text(
            f"Step {step} of {len(steps)}, {steps[step - 1]['tokens']:,} "
        )
        answer = [line for line in lines if "answer" in line and line["answer"] <= step][-1]
        expect(page.locator("#growing .lane").last.locator(".answer")).to_have_text(text_of(answer))
        probe = [line for line in lines if "probe" in line and line["probe"] <= step][-1]
        right = sum(prompt["right"] for prompt in probe["prompts"])
        expect(page.locator("#curves .held-out summary")).to_have_text(
            f"Held-out prompts after step {probe['probe']}: {right} of {len(probe['prompts'])} right"
        )
        for shown, prompt in zip(page.locator("#curves .held-out li").all(), probe["prompts"]):
            expect(shown.locator(".answer")).to_have_text(prompt["text"])
            expect(shown.locator(".mark")).to_contain_text("right" if prompt["right"] else "wrong")
        for series in ("clean", "noisy"):
            path = page.locator(f'#curves path[data-series="{series}"]').get_attribute("d")
            assert len(re.findall("[ML]", path)) == step
    head.fill("0")
    expect(page.locator("#growing .lane")).to_have_count(1)  # the base alone
    expect(page.locator("#curves .held-out")).to_be_hidden()
    page.locator("#curves .play").click()
    expect(progress(page)).to_contain_text(f"Step {len(steps)} of")
    expect(page.locator("#curves .play")).to_contain_text("Play")


@pytest.mark.slow
def test_a_training_is_watched_and_its_result_can_be_used(open_tab):
    page = open_tab()
    page.locator("#train").click()
    expect(progress(page)).to_contain_text("Step 3 of 3", timeout=120_000)
    expect(page.locator("#growing .lane")).to_have_count(2)
    expect(page.locator("#curves .slots-chart .slot")).to_have_count(9)
    for series in ("clean", "noisy", "accuracy", "tokens_per_forward"):
        expect(page.locator(f'#curves path[data-series="{series}"]')).to_have_attribute(
            "d", re.compile("^M")
        )
    expect(page.locator("#curves .note")).to_be_hidden()
    finished(page)
    expect(page.locator("#before-after")).to_contain_text("before: ar-tiny")
    page.locator("#curves .playhead").fill("0")
    expect(page.locator("#growing .lane")).to_have_count(1)
    page.locator("#curves .playhead").fill("1")
    expect(progress(page)).to_contain_text("Step 1 of 3,")
    expect(page.locator("#growing .lane")).to_have_count(2)
    with page.expect_download() as download:
        page.locator("#archive").click()
    names = zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())).namelist()
    assert {"config.json", "model.safetensors", "tokenizer.json", "custom_generate/generate.py"} <= set(
        names
    )
    assert not [name for name in names if "state" in name]
    page.locator("#race-it").click()
    expect(page.locator("#model input")).to_have_value(re.compile("mine-"))
    page.locator("#run").click()
    expect(page.locator("#stage .note")).to_be_empty()
    expect(page.locator("#stage .verdict")).to_contain_text("one token at a time;")


def step_of(page: Page) -> int:
    return int(re.match(r"Step (\d+) of", progress(page).inner_text())[1])


@pytest.mark.slow
def test_a_paused_training_rests_goes_on_and_a_stopped_one_keeps_what_it_learned(open_tab, slow):
    page = open_tab(steps=200)
    page.locator("#train").click()
    expect(progress(page)).to_contain_text(re.compile(r"Step [1-9]\d* of 200,"), timeout=120_000)
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Continue")  # said once the step under way has ended
    paused = step_of(page)
    page.get_by_role("tab", name="Race").click()  # a race takes longer than several steps
    page.locator("#run").click()
    expect(page.locator("#run")).to_be_disabled()
    expect(page.locator("#run")).to_be_enabled()
    page.get_by_role("tab", name="Train").click()
    assert step_of(page) == paused
    page.locator("#pause").click()
    expect(page.locator("#pause")).to_have_text("Pause")
    expect(progress(page)).not_to_contain_text(f"Step {paused} of")
    page.locator("#train-stop").click()
    finished(page)
    expect(page.locator("#race-it")).to_be_visible()


def test_a_training_that_fails_says_so_and_the_next_one_runs(open_tab):
    def fail(*_):
        raise RuntimeError("the device is gone")

    page = open_tab()
    hook = register_module_forward_pre_hook(fail)
    try:
        page.locator("#train").click()
        expect(page.get_by_test_id("toast-body")).to_contain_text("unexpected error")
    finally:
        hook.remove()
    expect(page.locator("#train")).to_be_enabled()
    expect(page.locator("#train-stop")).to_be_disabled()
    page.locator("#train").click()
    finished(page)


def test_a_trained_model_that_was_kept_long_enough_is_missed_with_a_sentence(open_tab):
    page = open_tab(steps=1)
    page.locator("#train").click()
    finished(page)
    for model in owned._models.values():
        model.since -= 60 * LIMITS.kept
    owned.forget_old()
    page.locator("#race-it").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("was kept for 60 minutes and is gone")


@pytest.mark.slow
def test_one_training_at_a_time_and_a_visitor_who_leaves_frees_it(open_tab):
    one, two = open_tab(steps=2000), open_tab(steps=2)
    one.locator("#train").click()
    expect(progress(one)).to_contain_text("of 2000,", timeout=120_000)
    two.locator("#train").click()
    expect(two.locator("#watched .progress-text, #watched .meta-text").first).to_contain_text("queue")
    one.close()
    expect(progress(two)).to_contain_text("Step 2 of 2", timeout=120_000)
    finished(two)


def test_a_downloaded_checkpoint_can_be_uploaded_and_trained_on(open_tab, tmp_path):
    folder = ASSETS / "ar-tiny"
    archive = shutil.make_archive(str(tmp_path / "my-model"), "zip", folder)
    page = open_tab(steps=1)
    upload(page, archive)
    expect(page.locator("#base input")).to_have_value(re.compile("my-model-"), timeout=60_000)
    page.locator("#train").click()
    expect(progress(page)).to_contain_text("Step 1 of 1", timeout=120_000)
    finished(page)


def test_what_is_no_checkpoint_gets_a_sentence(open_tab, tmp_path):
    archive = tmp_path / "junk.zip"
    archive.write_bytes(b"PK no zip at all")
    page = open_tab()
    upload(page, archive)
    expect(page.get_by_test_id("toast-body")).to_contain_text("is not a zipped checkpoint")
    expect(page.locator("#base input")).to_have_value("ar-tiny")


def test_a_preset_sets_the_controls(open_tab):
    page = open_tab()
    page.locator("#preset input").click()
    page.get_by_role("option", name="AR, compute-matched").click()
    expect(page.get_by_role("radio", name="AR", exact=True)).to_be_checked()
    expect(page.locator("#steps input[type=number]")).to_have_value("320")


@pytest.mark.parametrize("limit", [0, 50, 2500])
def test_a_space_can_limit_steps_or_switch_training_off(monkeypatch, limit):
    monkeypatch.setenv("MARS_DEMO_TRAIN_STEPS", str(limit))
    settings = {
        "objective": "mars",
        "block_size": 8,
        "sft_weight": 1,
        "data": "code",
        "learning_rate": 1e-3,
    }
    sentence = f"from 1 to {limit}" if limit else "switched off"
    with pytest.raises(ValueError, match=sentence):
        train._recipe(steps=limit + 1, **settings)
    if limit:
        assert train._recipe(steps=limit, **settings).steps == limit


def test_a_training_ends_at_the_limit_of_time_and_keeps_what_it_has_learned(open_tab, monkeypatch):
    monkeypatch.setattr(train, "MINUTE", 0.1)
    monkeypatch.setenv("MARS_DEMO_TRAIN_MINUTES", "30")
    page = open_tab(steps=1000)
    page.locator("#train").click()
    told = page.get_by_text("Stopped after 30 minutes, the limit of a training here.")
    expect(told).to_be_visible(timeout=120_000)
    finished(page)
    expect(page.locator("#archive")).to_be_visible()


def test_a_training_that_ends_before_the_limit_is_whole(open_tab, monkeypatch):
    monkeypatch.setattr(train, "MINUTE", 20)
    monkeypatch.setenv("MARS_DEMO_TRAIN_MINUTES", "30")
    page = open_tab(steps=1)
    page.locator("#train").click()
    finished(page)
    expect(page.get_by_text("the limit of a training here")).to_have_count(0)
