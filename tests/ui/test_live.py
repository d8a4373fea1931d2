"""The live page of the gallery: the visitor's browser decodes, and its runs equal those of Python."""

import json
import random
import shutil
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest
from acts import is_legible, saved
from conftest import DESKTOP, checked_context
from greedy import check_passes, check_same_passes
from hostile import SCRIPTS
from on_stage import PROJECTOR, keeps_still, lane, on_one_screen, shown, watch_shifts
from playwright.sync_api import expect

from benchmarks.live import run_races, serving
from mars_demo import cli, tasks
from mars_demo.core.assets import read_json
from mars_demo.core.trace import Run, read_text
from mars_demo.decoding.decode import decode
from mars_demo.decoding.request import Request
from mars_demo.models.chat import encode_prompt
from mars_demo.models.load import load_checkpoint
from mars_demo.static import live
from mars_demo.static.live import runtime

CHAT = "mars-smollm2-135m"
MOST = 40_000_000  # bytes of the page with mars-tiny
LARGEST = 100_000_000  # bytes of a file that every host accepts
BUS = next(example["prompt"] for example in read_json("prompts.json") if example["id"] == "bus")
FEW_PAGES = 4096  # of WebAssembly's memory, 64 kB each: too few for the chat model
PHONE = {"width": 390, "height": 844}
PIECES = (
    "the", " cat", "é", "e\u0301", "日本", "🙂", "👩‍👩‍👧", "\n", "\t", "  ",
    "<|end|>", "<|user|>", "<mask>", "0", "12.5", "’", "\u00a0",
)  # fmt: skip

# Encode prompts, and decode their ids again, with a module of the worker.
ENCODE = """async ([worker, model, source, prompts]) => {
  const { Tokens } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
  const { Tokenizer } = await import(`${worker}runtime/tokenizers.min.mjs`);
  const read = async (name) => (await fetch(model + name)).json();
  const files = ["tokenizer.json", "tokenizer_config.json", "decoder.json"];
  const tokens = new Tokens(Tokenizer, ...await Promise.all(files.map(read)));
  return prompts.map((prompt) => {
    const ids = tokens.encodePrompt(prompt);
    return [ids, tokens.decode(ids)];
  });
}"""

# Race with fixed windows until `adapt` is called: adaptive ones have no masks if the processor is busy.
FIX_WINDOWS = """() => {
  const { postMessage } = Worker.prototype;
  Worker.prototype.postMessage = function ({ race, ...others }) {
    postMessage.call(this, race ? { race: { ...race, adaptive: false } } : others);
  };
  globalThis.adapt = () => Object.assign(Worker.prototype, { postMessage });
}"""


@pytest.fixture(scope="module")
def served(gallery):
    """Serve the gallery as plain files; yield its URL."""
    with serving(gallery) as url:
        yield url


@pytest.fixture(scope="module")
def chat_site(tmp_path_factory):
    """Write a static Space, which has the chat model too."""
    folder = tmp_path_factory.mktemp("site") / "space"
    assert cli.main(["space", "--static", "--output", str(folder)]) == 0
    return folder


@pytest.fixture
def chat_served(chat_site):
    """Serve the static Space as plain files; yield its URL."""
    with serving(chat_site) as url:
        yield url


def on_site(browser, url: str):
    """Return a context that never leaves the site."""
    return checked_context(browser, url, "data:", f"blob:{url}", reduced_motion="reduce")


@pytest.fixture(scope="module")
def context(browser, served):
    with on_site(browser, served) as (context, _):
        yield context


def open_page(context, url: str):
    """Open the live page and wait for its first model."""
    page = context.new_page()
    page.goto(f"{url}live/index.html")
    expect(page.locator(".said")).to_have_text("mars-tiny is ready.")
    return page


@pytest.fixture(scope="module")
def page(context, served):
    return open_page(context, served)


@pytest.fixture(scope="module")
def blank(context, served):
    """Open a page of the site without scripts."""
    page = context.new_page()
    page.goto(f"{served}live/models/mars-tiny/decoder.json")
    return page


def run_button(page):
    return page.get_by_role("button", name="Run", exact=True)


def fill(page, prompt: str, modes=("mars",), tau: float = 0.95, watched: bool = False) -> None:
    page.locator(".typed").fill(prompt)
    for box in page.locator(".modes [type=checkbox]").all():
        box.set_checked(box.get_attribute("value") in modes)
    page.locator(".controls .tau").fill(str(tau))
    page.locator(".watched").set_checked(watched)


def begin(page, prompt: str, *settings, **more) -> None:
    fill(page, prompt, *settings, **more)
    run_button(page).click()


def finish(page, state: str = "done") -> None:
    """Wait until the race is over and the stage has drawn its end."""
    expect(run_button(page)).to_be_enabled()
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(page.locator(".stage")).to_have_attribute("data-state", state)


@pytest.fixture
def visit_saved(visit_file, tmp_path):
    """Return a function that opens the page that the live page saves of its run."""

    def visit(page):
        file = tmp_path / "saved.html"
        file.write_bytes(saved(page, "html").read_bytes())
        return visit_file(file)

    return visit


def runs_of(page) -> dict:
    record = saved(page, "jsonl").read_text("utf-8")
    return {run.settings.mode: run for run in read_text(record)}


def test_the_page_with_its_model_is_small(gallery):
    assert sum(path.stat().st_size for path in (gallery / "live").rglob("*") if path.is_file()) < MOST


def test_a_prompt_is_decoded_in_the_browser_and_the_stage_works_as_in_the_app(page, visit_saved):
    begin(page, "Write a short story about a cat.", ("mars", "lossless"))
    finish(page)
    expect(page.locator(".machine")).to_have_text("mars-tiny on this browser, float32")
    mars = runs_of(page)["mars"]
    assert len(mars.passes[mars.forwards // 2].slots) < mars.settings.window  # it adapts to free text
    lane(page, "mars").locator(".token").first.click()
    expect(page.locator(".inspector .candidates li").first).to_be_visible()
    page.locator(".ghost-range").fill("0.5")
    page.locator('[data-do="again"]').click()
    expect(page.locator(".lane .setting", has_text="0.50")).to_be_visible()
    finish(page)
    runs = runs_of(page)
    assert list(runs) == ["ar", "mars", "lossless"]
    assert runs["lossless"].text == runs["ar"].text
    assert {step.tau for step in runs["mars"].passes} == {0.5}
    replayed = visit_saved(page)
    for mode, run in runs.items():
        expect(shown(page, mode)).to_have_count(run.forwards)
        assert lane(page, mode).locator(".answer").text_content() == run.text
        assert lane(replayed, mode).locator(".answer").text_content() == run.text


def test_another_page_opens_with_three_lanes_and_kept_files_and_one_click_leaves_two(context, served, page):
    fetched = []
    context.on("request", lambda sent: fetched.append(sent.url))
    other = open_page(context, served)
    assert fetched and not [url for url in fetched if url.endswith((".onnx", ".bin", ".wasm"))]
    expect(other.locator(".lane")).to_have_count(3)
    expect(other.locator(".controls .hint")).to_contain_text("positions, not forwards")
    other.get_by_role("checkbox", name="MARS, lossless").click()
    run_button(other).click()
    expect(other.locator(".lane")).to_have_count(2)
    other.locator(".watched").uncheck()
    finish(other)
    assert list(runs_of(other)) == ["ar", "mars"]
    other.close()


def test_an_answer_that_may_be_wrong_comes_with_examples(page, visit_saved):
    page.evaluate(FIX_WINDOWS)
    begin(page, "Tell me a short story about a lantern and a wizard.", tau=0.0)
    finish(page)
    page.evaluate("() => globalThis.adapt()")
    expect(page.locator(".because")).to_contain_text("AR continues differently")
    alone = visit_saved(page)  # without a prompt box
    expect(alone.locator(".because")).to_contain_text("AR continues differently")
    expect(alone.locator(".offers")).to_be_hidden()
    before = runs_of(page)["ar"].settings.run
    page.locator(".offers button").first.click()
    expect(page.locator(".typed")).to_have_value(BUS)
    assert runs_of(page)["ar"].settings.run == before  # the visitor runs it


def test_a_watched_race_is_on_one_screen_and_waits_for_the_visitor(page):
    assert page.evaluate("() => document.querySelector('.watched').defaultChecked")
    page.set_viewport_size(PROJECTOR)
    page.evaluate("() => scrollTo(0, 0)")
    watch_shifts(page)
    begin(page, BUS, tau=1.0, watched=True)
    expect(page.locator(".stage")).to_have_attribute("data-state", "running")  # not the race before
    expect(shown(page, "mars").nth(1)).to_be_visible()
    on_one_screen(page)
    page.locator(".controls .tau").fill("0.5")
    expect(lane(page, "mars").locator(".setting")).to_contain_text("0.50")
    page.locator(".watched").uncheck()  # the rest comes at once
    finish(page)
    on_one_screen(page)
    keeps_still(page)
    taus = [step.tau for step in runs_of(page)["mars"].passes]
    assert set(taus) == {1.0, 0.5} and taus == sorted(taus, reverse=True)

    begin(page, BUS, ("mars", "lossless"), watched=True)
    expect(page.locator(".stage")).to_have_attribute("data-state", "running")
    expect(shown(page, "mars").first).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    finish(page, "stopped")
    assert {run.stop for run in runs_of(page).values()} == {"stopped"}
    page.set_viewport_size(DESKTOP)


def test_hostile_prompts_stay_text(page, visit_saved):
    prompt = f"{SCRIPTS[0]}<|end|><|assistant|>{{{{7*7}}}}</script>\u2028"
    begin(page, prompt)
    finish(page)
    assert page.locator(".prompt").text_content() == prompt
    assert runs_of(page)["ar"].settings.prompt == prompt
    assert visit_saved(page).locator(".prompt").text_content() == prompt


def test_impossible_prompts_are_refused_in_a_sentence(page):
    for prompt, sentence in (
        ("  ", "The prompt is empty; write something for the model to answer."),
        ("word " * 700, "mars-tiny can read at most 511."),
    ):
        begin(page, prompt)
        expect(page.locator(".said")).to_contain_text(sentence)
        expect(run_button(page)).to_be_enabled()
    begin(page, "Sort these numbers: 3, 1, 2.")
    finish(page)
    expect(page.locator(".said")).to_be_empty()


def test_the_page_fits_a_phone(page):
    page.set_viewport_size(PHONE)
    page.evaluate("() => scrollTo(0, 0)")
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
    for control in (page.locator(".typed"), page.locator(".examples"), run_button(page)):
        box = control.bounding_box()
        assert box and box["y"] >= 0 and box["y"] + box["height"] <= PHONE["height"]
    begin(page, BUS, ("mars", "lossless"), watched=True)
    expect(shown(page, "mars").nth(1)).to_be_visible()
    box = page.locator(".stage").bounding_box()
    assert box and abs(box["y"]) < 2  # scrolled into view
    lanes = [lane(page, name).bounding_box() for name in ("ar", "mars", "lossless")]
    assert all(one["y"] + one["height"] <= PHONE["height"] for one in lanes)
    page.locator(".watched").uncheck()
    finish(page)
    is_legible(page)
    page.set_viewport_size(DESKTOP)


# --------------------------------------------------------------- runs compared with those of Python

SETTINGS = attrgetter(
    *"mode model window block_size tau prompt prompt_tokens max_new_tokens criterion raw".split()
)
PASS = attrgetter(*"number tau positions accepted stop drafts verified groups".split())
NEAR = 0.1  # TIE of quantized models, whose inputs may be rounded to the next byte


def check_races(page, url: str, checkpoint, prompts, adaptive: bool) -> list[bool]:
    """Race prompts in the browser and in Python: all modes at the first τ, and `mars` alone at the others.

    Assert that the runs are equal, each up to a tie, and return which had one. Adaptive runs have the costs
    that the browser measured.
    """
    lanes = {0.95: ["ar", "mars", "lossless"]} | dict.fromkeys((0.5, 0.8, 0.99), ["mars"])
    races = [
        {"prompt": prompt, "modes": modes, "tau": tau, "maxNewTokens": 128, "adaptive": adaptive}
        for prompt in prompts
        for tau, modes in lanes.items()
    ]
    ties = []
    written = run_races(page, f"{url}live/", checkpoint.name, races)
    for race, text in zip(races, written, strict=True):
        runs = lanes_of(text)
        assert [*runs] == race["modes"]
        for mode, run in runs.items():
            costs = run.settings.costs
            assert bool(costs) == (adaptive and mode != "ar")
            request = Request(mode, race["tau"], max_new_tokens=128, linear=True, adaptive=bool(costs))
            expected = decode(replace(checkpoint, costs=costs), race["prompt"], request).finish()
            assert SETTINGS(run.settings) == SETTINGS(expected.settings)
            assert (run.settings.device, run.settings.dtype) == ("wasm", "float32")
            count = check_same_passes(expected, run)
            ties.append(count < expected.forwards)
            for step, other in zip(run.passes[:count], expected.passes):
                assert PASS(step) == PASS(other)
                for slot, one in zip(step.slots, other.slots):
                    assert (slot.text, slot.source) == (one.text, one.source)
                    assert slot.score == pytest.approx(one.score, abs=1e-4)
    return ties


@pytest.mark.parametrize("count", [1, pytest.param(100, marks=pytest.mark.full)])
def test_runs_equal_those_of_python(blank, served, mars_tiny, count):
    prompts = [example.prompt for example in tasks.mixed(-(-count // 12))][:count]
    ties = [
        tie
        for adaptive in (False, True)
        for tie in check_races(blank, served, mars_tiny, prompts, adaptive)
    ]
    assert sum(ties) <= len(ties) // 20  # most comparisons reach the end


def random_texts(count: int) -> list[str]:
    random_ = random.Random(0)
    return ["".join(random_.choices(PIECES, k=random_.randint(1, 12))) for _ in range(count)]


def check_tokenizer(page, url: str, checkpoint) -> None:
    prompts = [example["prompt"] for example in read_json("prompts.json")] + random_texts(1000)
    source = (Path(live.__file__).parent / "worker" / "tokens.js").read_text("utf-8")
    folders = [f"{url}live/worker/", f"{url}live/models/{checkpoint.name}/"]
    found = page.evaluate(ENCODE, [*folders, source, prompts])
    for prompt, (ids, text) in zip(prompts, found):
        assert ids == encode_prompt(checkpoint.tokenizer, prompt), prompt
        settings = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        assert text == checkpoint.tokenizer.decode(ids, **settings)


def test_prompts_have_the_tokens_of_python(blank, served, mars_tiny):
    check_tokenizer(blank, served, mars_tiny)


@pytest.mark.full
def test_a_static_space_is_the_gallery_and_the_chat_model(gallery, chat_site):
    names = [{path.relative_to(root) for path in root.rglob("*")} for root in (chat_site, gallery)]
    chat = Path("live", "models", CHAT)
    assert names[0] - names[1] == {path for path in names[0] if path == chat or chat in path.parents}
    assert names[1] < names[0] and chat / "LICENSE" in names[0]
    assert max(path.stat().st_size for path in chat_site.rglob("*")) < LARGEST


@pytest.mark.full
def test_the_chat_model_is_loaded_when_it_is_chosen(browser, chat_served):
    with on_site(browser, chat_served) as (context, _):
        fetched = []
        context.on("request", lambda sent: fetched.append(sent.url))
        page = open_page(context, chat_served)
        assert not [url for url in fetched if CHAT in url]
        [label] = page.locator(".models label", has_text=CHAT).all_inner_texts()
        assert "MB" in label and "GB of memory" in label
        page.get_by_label(CHAT).check()
        expect(page.locator(".prompt")).to_contain_text("Reformat as D Month YYYY")  # its recorded run
        expect(page.locator(".about:visible")).to_contain_text("HuggingFaceTB/SmolLM2-135M-Instruct")
        expect(page.locator(".said")).to_have_text(f"{CHAT} is ready.")
        assert page.locator(".examples option").first.text_content().startswith("Dates")
        begin(page, "Reformat as D Month YYYY (given: YYYY-MM-DD):\n\n2028-07-18")
        expect(page.get_by_label("mars-tiny")).to_be_disabled()
        finish(page)
        runs = runs_of(page)
        assert runs["mars"].settings.model == CHAT and "18 July 2028" in runs["mars"].text
        page.get_by_label("mars-tiny").check()
        expect(page.locator(".said")).to_have_text("mars-tiny is ready.")
        begin(page, "Sort these numbers: 3, 1, 2.")
        finish(page)
        assert runs_of(page)["ar"].settings.model == "mars-tiny"


@pytest.mark.full
def test_the_chat_models_answers_are_the_apps_up_to_near_ties(browser, chat_served):
    """Both compute the same integer products; between them, attention's last digits may round an input."""
    prompts = [example["prompt"] for example in read_json("prompts.json") if example["model"] == CHAT]
    checkpoint, modes = load_checkpoint(CHAT, "cpu", "int8"), ["ar", "mars", "lossless"]
    races = [{"prompt": prompt, "modes": modes, "tau": 0.95, "maxNewTokens": 128} for prompt in prompts]
    with on_site(browser, chat_served) as (context, _):
        page = context.new_page()
        page.goto(f"{chat_served}live/models/{CHAT}/decoder.json")
        check_tokenizer(page, chat_served, checkpoint)
        written = run_races(page, f"{chat_served}live/", CHAT, races)
    answers = [lanes_of(text) for text in written]
    for runs in answers:
        assert runs["ar"].settings.dtype == "int8"
        assert runs["lossless"].token_ids == runs["ar"].token_ids
    for prompt, runs in zip(prompts, answers):
        for mode in ("ar", "mars"):
            expected = decode(checkpoint, prompt, Request(mode, 0.95, max_new_tokens=128)).finish()
            passes = runs[mode].passes
            accepted = [([slot.id for slot in one.slots[: one.accepted]], one.accepted) for one in passes]
            check_passes(expected.passes, accepted, NEAR)


def lanes_of(text: str) -> dict[str, Run]:
    """Return the runs of a race by their modes."""
    lines = [json.loads(line) for line in text.splitlines()]
    names = [line.pop("lane") for line in lines]
    return {
        name: Run.read(json.dumps(line) for line, lane in zip(lines, names) if lane == name)
        for name in dict.fromkeys(names)
    }


@pytest.mark.full
def test_too_little_memory_is_a_sentence_and_smaller_models_go_on(browser, chat_served):
    limit = f"--js-flags=--wasm-max-mem-pages={FEW_PAGES}"
    small = browser.browser_type.launch(
        executable_path=shutil.which("chromium"), args=["--no-sandbox", limit]
    )
    page = open_page(small, chat_served)
    page.get_by_label(CHAT).check()
    expect(page.locator(".said")).to_contain_text("There is not enough memory for this.")
    expect(run_button(page)).to_be_disabled()
    page.get_by_label("mars-tiny").check()
    expect(page.locator(".said")).to_have_text("mars-tiny is ready.")
    small.close()


@pytest.mark.full
def test_without_npm_the_gallery_has_no_live_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runtime, "INSTALLED", tmp_path / "node_modules")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["space", "--static", "--output", str(tmp_path / "site")]) == 0
    said = capsys.readouterr().err
    assert "npm" in said
    assert not (tmp_path / "site" / "live").exists()
    assert "live/" not in (tmp_path / "site" / "index.html").read_text("utf-8")


def test_a_space_is_static_or_has_hardware(tmp_path):
    with pytest.raises(SystemExit):
        cli.main(["space", "--static", "--hardware", "cpu-basic", "--output", str(tmp_path / "site")])


def test_libraries_that_npm_rejects_are_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "INSTALLED", tmp_path / "node_modules")
    monkeypatch.setenv("PATH", str(tmp_path))
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(runtime.MissingLibraries, match="npm could not fetch"):
        runtime.fetch_libraries(tmp_path)
