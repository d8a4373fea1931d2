"""The live page of the gallery: the visitor's browser decodes, and its runs equal those of Python."""

import random

import pytest
import torch
from hostile import SCRIPTS
from live_runs import check_lines, expected, held_out_prompts, races_of
from playwright.sync_api import expect

from benchmarks.live import run_races, serving
from mars_demo import cli
from mars_demo.assets import read_json
from mars_demo.decoding.trace import read_text
from mars_demo.export import onnx_model
from mars_demo.models.chat import encode_prompt
from mars_demo.models.load import load_checkpoint
from mars_demo.ui.live import runtime

pytestmark = pytest.mark.xdist_group("gallery")  # one process writes it
MOST = 40_000_000  # bytes of the page with mars-tiny
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
PIECES = [
    "the",
    " cat",
    "é",
    "e\u0301",
    "日本",
    "🙂",
    "👩‍👩‍👧",
    "\n",
    "\t",
    "  ",
    "<|end|>",
    "<|user|>",
    "<mask>",
    "0",
    "12.5",
    "’",
    "\u00a0",
]

# Encode prompts, and decode their ids again, with the modules of the worker.
ENCODE = """async ([worker, model, prompts]) => {
  const { Tokens } = await import(`${worker}tokens.js`);
  const { Tokenizer } = await import(`${worker}runtime/tokenizers.min.mjs`);
  const read = async (name) => (await fetch(model + name)).json();
  const files = ["tokenizer.json", "tokenizer_config.json", "decoder.json"];
  const tokens = new Tokens(Tokenizer, ...await Promise.all(files.map(read)));
  return prompts.map((prompt) => {
    const ids = tokens.encodePrompt(prompt);
    return [ids, tokens.decode(ids)];
  });
}"""


@pytest.fixture(scope="module")
def served(gallery):
    """Serve the gallery as plain files; yield its URL."""
    with serving(gallery) as url:
        yield url


@pytest.fixture(scope="module")
def context(browser, served):
    """Yield a browser context; errors, and requests that leave the gallery, fail the tests."""
    context, troubles = browser.new_context(viewport=DESKTOP, reduced_motion="reduce"), []
    context.set_default_timeout(120_000)
    allowed = (served, "data:", f"blob:{served}")
    context.on("request", lambda sent: sent.url.startswith(allowed) or troubles.append(sent.url))
    context.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    context.on("weberror", lambda error: troubles.append(str(error.error)))
    yield context
    context.close()
    assert not troubles


@pytest.fixture(scope="module")
def page(context, served):
    """Open the live page and wait for its model."""
    page = context.new_page()
    page.goto(f"{served}live/index.html")
    expect(page.locator(".said")).to_have_text("mars-tiny is ready.")
    return page


@pytest.fixture(scope="module")
def blank(context, served):
    """Open a page of the site without scripts."""
    page = context.new_page()
    page.goto(f"{served}live/models/mars-tiny/decoder.json")
    return page


def run_button(page):
    return page.get_by_role("button", name="Run", exact=True)


def begin(page, prompt: str, modes=("mars",), tau: float = 0.95) -> None:
    page.locator(".typed").fill(prompt)
    for box in page.locator(".controls [type=checkbox]").all():
        box.set_checked(box.get_attribute("value") in modes)
    page.locator(".controls .tau").fill(str(tau))
    run_button(page).click()


def finish(page) -> None:
    expect(page.locator(".stage")).to_have_attribute("data-state", "done")
    expect(run_button(page)).to_be_enabled()


def saved(page, kind: str):
    """Return the path of a file that the page downloads."""
    with page.expect_download() as download:
        page.locator(f'[data-do="{kind}"]').click()
    return download.value.path()


def runs_of(page) -> dict:
    record = saved(page, "jsonl").read_text("utf-8")
    return {run.settings.mode: run for run in read_text(record)}


def test_the_page_with_its_model_is_small(gallery):
    assert sum(path.stat().st_size for path in (gallery / "live").rglob("*") if path.is_file()) < MOST


def test_a_prompt_is_decoded_in_the_browser(page):
    begin(page, "How many meters is 14 kilometers?", ("mars", "lossless"))
    finish(page)
    runs = runs_of(page)
    assert list(runs) == ["ar", "mars", "lossless"]
    assert runs["lossless"].text == runs["ar"].text
    for mode, run in runs.items():
        lane = page.locator(f'.lane[data-lane="{mode}"]')
        expect(lane.locator(".pass:not(.future)")).to_have_count(run.forwards)
        assert lane.locator(".answer").text_content() == run.text
    expect(page.locator(".machine")).to_have_text("mars-tiny on this browser, float32")


def test_the_stage_works_as_in_the_app(page, visit_file, tmp_path):
    begin(page, "Write a short story about a cat.")
    finish(page)
    page.locator('.lane[data-lane="mars"] .token').first.click()
    expect(page.locator(".inspector .candidates li").first).to_be_visible()
    page.locator(".ghost-range").fill("0.5")
    page.locator('[data-do="again"]').click()
    expect(page.locator(".lane .setting", has_text="0.50")).to_be_visible()
    finish(page)
    runs = runs_of(page)
    assert {step.tau for step in runs["mars"].passes} == {0.5}
    file = tmp_path / "saved.html"
    file.write_bytes(saved(page, "html").read_bytes())
    replayed = visit_file(file)
    for mode, run in runs.items():
        assert replayed.locator(f'.lane[data-lane="{mode}"] .answer').text_content() == run.text
    assert saved(page, "png").read_bytes().startswith(b"\x89PNG")


def test_a_run_stops(page):
    begin(page, "Count the letters of this text: " + "mississippi " * 20, ("mars", "lossless"))
    page.get_by_role("button", name="Stop").click()
    expect(run_button(page)).to_be_enabled()
    expect(page.locator(".stage")).to_have_attribute("data-state", "stopped")


def test_hostile_prompts_stay_text(page, visit_file, tmp_path):
    prompt = f"{SCRIPTS[0]}<|end|><|assistant|>{{{{7*7}}}}</script>\u2028"
    begin(page, prompt)
    finish(page)
    assert page.locator(".prompt").text_content() == prompt
    assert runs_of(page)["ar"].settings.prompt == prompt
    file = tmp_path / "saved.html"
    file.write_bytes(saved(page, "html").read_bytes())
    assert visit_file(file).locator(".prompt").text_content() == prompt


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


def test_the_browser_keeps_the_files(context, served, page):
    other, fetched = context.new_page(), []
    other.on("request", lambda sent: fetched.append(sent.url))
    other.goto(f"{served}live/index.html")
    expect(other.locator(".said")).to_have_text("mars-tiny is ready.")
    assert not [url for url in fetched if url.endswith((".onnx", ".wasm"))]
    other.close()


def test_the_page_fits_a_phone(page):
    page.set_viewport_size(PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
    page.set_viewport_size(DESKTOP)


@pytest.mark.parametrize("count", [2, pytest.param(100, marks=pytest.mark.full)])
def test_runs_equal_those_of_python(blank, served, count):
    races = races_of(held_out_prompts(count))
    own = expected(load_checkpoint("mars-tiny", "cpu", torch.float32), races)
    found = run_races(blank, f"{served}live/", "mars-tiny", races)
    compared = [one for (lines, _), runs in zip(found, own) for one in check_lines(lines, runs).values()]
    assert sum(one.tied for one in compared) <= len(compared) // 20  # most comparisons reach the end


def random_texts(count: int) -> list[str]:
    random_ = random.Random(0)
    return ["".join(random_.choices(PIECES, k=random_.randint(1, 12))) for _ in range(count)]


@pytest.mark.parametrize("name", ["mars-tiny", pytest.param("mars-smollm2-135m", marks=pytest.mark.full)])
def test_prompts_have_the_tokens_of_python(blank, served, gallery, name):
    checkpoint = load_checkpoint(name, "cpu", torch.float32)
    folder = gallery / "live" / "models" / name
    if not folder.exists():
        onnx_model.write(checkpoint, folder, 8)
    prompts = [example["prompt"] for example in read_json("prompts.json")] + random_texts(1000)
    found = blank.evaluate(ENCODE, [f"{served}live/worker/", f"{served}live/models/{name}/", prompts])
    for prompt, (ids, text) in zip(prompts, found):
        assert ids == encode_prompt(checkpoint.tokenizer, prompt), prompt
        settings = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        assert text == checkpoint.tokenizer.decode(ids, **settings)


@pytest.mark.full
def test_without_npm_the_gallery_has_no_live_page(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runtime, "INSTALLED", tmp_path / "node_modules")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["gallery", "--output", str(tmp_path / "site")]) == 0
    said = capsys.readouterr().err
    assert "npm" in said and "--runtime-url" in said
    assert not (tmp_path / "site" / "live").exists()
    assert "live/" not in (tmp_path / "site" / "index.html").read_text("utf-8")


@pytest.mark.full
def test_a_static_space_is_the_gallery(gallery, tmp_path):
    folder = tmp_path / "space"
    assert cli.main(["space", "--static", "--output", str(folder)]) == 0
    names = [{path.relative_to(root) for path in root.rglob("*")} for root in (folder, gallery)]
    assert names[0] == names[1]
    with pytest.raises(SystemExit):
        cli.main(["space", "--static", "--hardware", "cpu-basic", "--output", str(tmp_path / "other")])


def test_copies_of_the_libraries_must_be_the_pinned_ones(gallery, tmp_path):
    copies = gallery / "live" / "worker" / "runtime"
    runtime.fetch(tmp_path, copies.as_uri())
    for library in runtime.LIBRARIES:
        assert (tmp_path / library.name).read_bytes() == (copies / library.name).read_bytes()
    (tmp_path / runtime.LIBRARIES[0].name).write_text("alert(1)")
    with pytest.raises(ValueError, match="SHA-256"):
        runtime.fetch(tmp_path, tmp_path.as_uri())
