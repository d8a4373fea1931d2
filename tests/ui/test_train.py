"""The Train tab in a real browser, with a few steps of real training."""

import io
import json
import re
import zipfile
from pathlib import Path

import httpx
import pytest
from acts import choose, is_open
from gradio.utils import get_upload_folder
from gradio_client.exceptions import AppError
from playwright.sync_api import Page, expect
from race_tab import race_to_the_end
from torch.nn.modules.module import register_module_forward_pre_hook
from web import app_client, until

from mars_demo import tasks
from mars_demo.evaluation import training_record, trainings
from mars_demo.ui.hosting.registry import MODELS, Trained
from mars_demo.ui.tabs import train


@pytest.fixture
def open_tab(visit, monkeypatch):
    """Open the tab with fewer prompts for the measurements of a training."""
    monkeypatch.setattr(training_record, "PROBE_TASKS", training_record.PROBE_TASKS[:2])
    monkeypatch.setattr(training_record, "PROBE_PROMPTS", 2)
    monkeypatch.setattr(training_record, "TIMED", 1)

    def open_it(steps: int = 3) -> Page:
        page = visit("tab=train")
        expect(page.locator("#base input")).to_have_value("ar-tiny")
        page.locator("#steps input[type=number]").fill(str(steps))
        page.locator("#steps input[type=number]").press("Enter")
        page.locator("#watched textarea").fill("How many meters is 3 kilometers?")
        return page

    return open_it


def playhead(page: Page):
    """Return the slider of steps, which follows a training."""
    return page.locator("#curves .playhead")


def trains(page: Page, steps: int) -> None:
    """Wait for the first step of a training of `steps` steps."""
    expect(playhead(page)).to_have_attribute("max", f"{steps}")
    expect(playhead(page)).to_have_value(re.compile("[1-9]"))


def finished(page: Page, steps: int) -> None:
    """Wait until a training of `steps` steps has ended."""
    expect(page.locator("#archive")).to_be_visible()
    expect(page.locator("#train-run")).to_be_enabled()
    expect(playhead(page)).to_have_attribute("max", f"{steps}")


def record() -> list[dict]:
    """Return the recorded training that the page opens with."""
    return [
        json.loads(line)
        for line in trainings.training_recording(trainings.training_index()[0]["id"]).splitlines()
    ]


def text_of(answer: dict) -> str:
    passes = [line for line in answer["record"] if "pass" in line]
    return "".join(slot["text"] for step in passes for slot in step["slots"][: step["accepted"]])


def scrubs(page: Page, lines: list[dict]) -> None:
    """Move through the recorded training and check what each step shows, without the server."""
    steps = [line for line in lines if "step" in line]
    expect(page.locator("#curves .note")).to_contain_text(lines[0]["machine"])
    urls = []
    page.on("request", lambda request: urls.append(request.url))
    page.locator("#curves .held-out summary").click()
    for step in (len(steps), len(steps) // 2, 1):
        playhead(page).fill(str(step))
        expect(page.locator("#curves .progress")).to_contain_text(f"{steps[step - 1]['tokens']:,} ")
        answer = [line for line in lines if "answer" in line and line["answer"] <= step][-1]
        expect(page.locator("#growing .lane").last.locator(".answer")).to_have_text(text_of(answer))
        probe = [line for line in lines if "probe" in line and line["probe"] <= step][-1]
        right = [prompt["right"] for prompt in probe["prompts"]]
        summary = re.compile(rf"\b{probe['probe']}\D+{sum(right)}\D+{len(right)}\b")
        expect(page.locator("#curves .held-out summary")).to_have_text(summary)
        answers = page.locator("#curves .held-out li")
        expect(answers.locator(".answer")).to_have_text([prompt["text"] for prompt in probe["prompts"]])
        expect(answers.locator(".mark")).to_contain_text(["✓" if one else "✗" for one in right])
        for series in ("clean", "noisy"):
            path = page.locator(f'#curves path[data-series="{series}"]').get_attribute("d")
            assert len(re.findall("[ML]", path)) == step
    playhead(page).fill("0")
    expect(page.locator("#growing .lane")).to_have_count(1)  # the base model only
    expect(page.locator("#curves .held-out")).to_be_hidden()
    playhead(page).fill(str(len(steps) - 5))
    page.locator("#curves .play").click()
    expect(playhead(page)).to_have_value(str(len(steps)))
    assert not [url for url in urls if "gradio_api" in url]


@pytest.mark.full
def test_a_recorded_training_is_shown_and_a_new_one_is_watched_and_used(open_tab):
    page = open_tab(steps=2)
    scrubs(page, record())
    page.locator("#train-run").click()
    finished(page, steps=2)
    expect(page.locator("#curves .note")).to_be_hidden()
    expect(page.locator("#growing .lane")).to_have_count(2)
    expect(page.locator("#curves .slots-chart .row")).to_have_count(9)
    for series in ("clean", "noisy", "accuracy", "tokens_per_forward"):
        path = page.locator(f'#curves path[data-series="{series}"]')
        expect(path).to_have_attribute("d", re.compile("^M"))
    playhead(page).fill("0")
    expect(page.locator("#growing .lane")).to_have_count(1)
    playhead(page).fill("1")
    expect(page.locator("#growing .lane")).to_have_count(2)
    with page.expect_download() as download:
        page.locator("#archive").click()
    names = zipfile.ZipFile(io.BytesIO(download.value.path().read_bytes())).namelist()
    expected = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "custom_generate/generate.py",
        "README.md",
    }
    assert expected <= set(names)
    assert not [name for name in names if "state" in name]
    expect(page.locator("#archive")).to_be_hidden()
    page.locator("#race-it").click()
    is_open(page, "Race")
    expect(page.locator("#model input")).to_have_value(re.compile("mine-"))
    held_out = [example.prompt for example in tasks.held_out("word-problems", 1)]  # the first preset's data
    expect(page.locator("#prompt textarea")).to_have_value(held_out[0])
    race_to_the_end(page)


@pytest.mark.full
def test_a_training_can_be_paused_resumed_and_stopped_with_its_result(open_tab):
    page = open_tab(steps=2000)
    pause = page.locator("#pause")
    page.locator("#train-run").click()
    trains(page, 2000)
    label = pause.inner_text()
    pause.click()
    expect(pause).not_to_have_text(label)
    expect(pause).to_be_enabled()  # after the current step
    paused = playhead(page).input_value()
    page.get_by_role("tab", name="Race").click()  # a race takes longer than a few steps
    race_to_the_end(page)
    page.get_by_role("tab", name="Train").click()
    expect(playhead(page)).to_have_value(paused)
    pause.click()
    expect(pause).to_have_text(label)
    expect(playhead(page)).not_to_have_value(paused)
    page.locator("#train-stop").click()
    finished(page, steps=2000)
    expect(page.locator("#race-it")).to_be_visible()


@pytest.mark.full
def test_a_failed_training_shows_a_message_and_the_next_one_runs(open_tab):
    def fail(*_):
        raise RuntimeError("the device is gone")

    page = open_tab()
    hook = register_module_forward_pre_hook(fail)
    try:
        page.locator("#train-run").click()
        expect(page.get_by_test_id("toast-body")).to_be_visible()
    finally:
        hook.remove()
    expect(page.get_by_test_id("toast-body")).not_to_contain_text("device")
    expect(page.locator("#train-run")).to_be_enabled()
    expect(page.locator("#train-stop")).to_be_disabled()
    page.locator("#train-run").click()
    finished(page, steps=3)


@pytest.mark.full
def test_a_preset_sets_the_controls(open_tab):
    page = open_tab()
    preset = next(one for one in trainings.PRESETS if one["objective"] == "ar")
    choose(page, "preset", preset["title"])
    expect(page.get_by_role("radio", name="AR", exact=True)).to_be_checked()
    expect(page.locator("#steps input[type=number]")).to_have_value(str(preset["steps"]))


@pytest.mark.parametrize("limit", [0, 50, 2500])
def test_a_space_can_limit_steps_or_disable_training(monkeypatch, limit):
    monkeypatch.setenv("MARS_DEMO_TRAIN_STEPS", str(limit))
    recipe = ["mars", 8, 1, "code", limit + 1, 1e-3]
    with pytest.raises(ValueError, match=f"{limit}" if limit else None):
        trainings.training_settings(*recipe, seed=0)
    if limit:
        recipe[4] = limit
        assert trainings.training_settings(*recipe, seed=0)["max_steps"] == limit


@pytest.mark.full
def test_a_training_ends_at_the_time_limit_with_its_result(open_tab, monkeypatch):
    monkeypatch.setattr(train, "MINUTE", 0.1)
    monkeypatch.setenv("MARS_DEMO_TRAIN_MINUTES", "30")
    page = open_tab(steps=2000)
    page.locator("#train-run").click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("30 ")
    finished(page, steps=2000)


# ------------------------------------------------------------------------------------ several visitors


@pytest.mark.full
def test_a_visitor_who_pauses_and_leaves_gives_the_training_slot_back(visit, open_tab):
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
    assert len(MODELS._trained) == 1
    two.close()
    until(lambda: not MODELS._trained)


def test_a_trained_model_is_usable_only_by_its_visitor(url, mars_tiny):
    one, two = app_client(url), app_client(url)
    messages = []
    name = "mine-0a0b0c0d"
    made = Trained(name, name, "ready", checkpoint=mars_tiny, owner=one.session_hash)
    MODELS._trained[name] = made
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
    folder = Path(get_upload_folder())
    assert not folder.exists() or not list(folder.rglob("upload"))
