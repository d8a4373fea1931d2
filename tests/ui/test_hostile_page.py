"""What others wrote is shown and never run: in prompts, answers, records, addresses, names and messages.

A probe in every page notices what a browser would run: a canary, dialogs, elements and attributes that hold
code, and what a content-security policy without inline code would forbid.
"""

import json
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from benchmarks.hostile.records import GOOD, with_texts
from benchmarks.hostile.values import NAMES, ODD, PATHS, SCRIPTS, SPECIAL

# Gradio's own page begins with scripts of its own; later ones come from its server.
POLICY = "script-src-elem 'self' https:; script-src-attr 'none'; object-src 'none'; frame-src 'none'"
FIELDS = "prompt run model mode tau criterion wait tab chapter lane mask_sentence mask_kind".split()
NO_NUMBERS = (
    "pass=-1&lane=constructor",
    "pass=0.5&lane=mars",
    "pass=1e999",
    "chapter=²&tab=learn",
    "tau=nan&wait=inf",
    f"mask_length={'9' * 5000}&tab=mask",
)
PROBE = """
window.__found = [];
const note = (what) => window.__found.push(what);
Object.defineProperty(window, "__hit", { set: () => note("the canary was set"), get: () => undefined });
for (const name of ["alert", "confirm", "prompt"]) window[name] = () => note(name);
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
  note(`policy: ${violatedDirective} ${blockedURI} ${sample}`));
const CODE = /^\\s*(javascript|data:text\\/html|vbscript)/i;
const look = (node) => {
  if (node.nodeType !== Node.ELEMENT_NODE) return;
  for (const each of [node, ...node.querySelectorAll("*")]) {
    const isCode = /^(script|iframe|object|embed)$/i.test(each.tagName);
    // Scripts of Gradio's own page hold its configuration, as JSON.
    const isConfig = /^window.gradio_config/.test(each.text);
    if (isCode && !isConfig && each.outerHTML.includes("__hit")) note(each.outerHTML);
    for (const { name, value } of each.attributes)
      if (/^on/i.test(name) || name === "srcdoc" || CODE.test(value)) note(`${name}=${value}`);
  }
};
new MutationObserver((changes) => {
  for (const { addedNodes, target, type } of changes) {
    addedNodes.forEach(look);
    if (type === "attributes") look(target);
  }
}).observe(document, { childList: true, subtree: true, attributes: true });
"""
FORBID = """policy => {
  const meta = document.createElement("meta");
  meta.httpEquiv = "Content-Security-Policy";
  meta.content = policy;
  document.head.append(meta);
}"""


@pytest.fixture
def visit_probed(browser, url):
    """Open a page with the probe in it; at the end it must have found nothing, nor any script failed."""
    contexts, pages, troubles = [], [], []

    def open_page(query: str = "", address: str = url) -> Page:
        context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
        context.set_default_timeout(60_000)
        context.add_init_script(PROBE)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        page.goto(f"{address}?{query}")
        page.locator(".stage").first.wait_for(state="attached")
        page.evaluate(FORBID, POLICY)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        page.evaluate("() => new Promise(requestAnimationFrame)")
        troubles += page.evaluate("window.__found")
    for context in contexts:
        context.close()
    assert troubles == []


def give(page: Page, text: str) -> None:
    """A file onto the stage."""
    file = {"name": "run.jsonl", "mimeType": "application/x-ndjson", "buffer": text.encode()}
    page.locator("#stage .file").set_input_files(file)


@pytest.fixture
def stage(visit_probed, stage_url):
    page = visit_probed("", stage_url)
    expect(page.locator(".token").first).to_be_attached()
    return page


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("document.body.insertAdjacentHTML('beforeend', text)", SCRIPTS[1]),
        ("document.body.append(document.createRange().createContextualFragment(text))", SCRIPTS[0]),
        ("new Function('return `' + text + '`')()", "${window.__hit = 1}"),
        ("document.body.appendChild(document.createElement('a')).href = text", "javascript:window.__hit=1"),
    ],
)
def test_the_probe_notices_what_runs(browser, stage_url, code, text):
    context = browser.new_context()
    context.add_init_script(PROBE)
    page = context.new_page()
    page.goto(stage_url)
    page.locator(".token").first.wait_for(state="attached")
    assert page.evaluate("window.__found") == []
    page.evaluate(f"text => {{ {code}; }}", text)
    page.wait_for_function("window.__found.length > 0")
    context.close()


def shows(page: Page, selector: str, text: str) -> None:
    """Wait until the first such node has exactly this text."""
    is_there = "([selector, text]) => document.querySelector(selector)?.textContent === text"
    page.wait_for_function(is_there, arg=[selector, text])


def test_texts_of_a_record_are_shown_as_they_are(stage):
    for text in (*SCRIPTS, *SPECIAL, *NAMES, *PATHS, *ODD):
        if not text or any("\ud800" <= character <= "\udfff" for character in text):
            continue
        give(stage, with_texts(text))
        shows(stage, ".prompt", text)
        shows(stage, ".token", text)
        if text in SCRIPTS:
            stage.locator(".token").first.dispatch_event("click")  # its card
            assert stage.locator(".card .alternatives .candidate").count() > 0
            expect(stage.locator(".note")).to_contain_text("Recorded: ")


def test_pictures_and_files_of_such_a_record_hold_no_code(stage):
    page = stage
    give(page, with_texts("".join(SCRIPTS)))
    expect(page.locator(".prompt")).to_contain_text("onerror")
    with page.expect_download() as download:
        page.locator('[data-do="svg"]').dispatch_event("click")
    picture = download.value.path().read_text("utf-8")
    assert "<script" not in picture and "<img" not in picture and "<foreignObject" not in picture
    with page.expect_download() as download:
        page.locator('[data-do="jsonl"]').dispatch_event("click")
    lines = [json.loads(line) for line in download.value.path().read_text("utf-8").splitlines()]
    assert lines[0]["prompt"] == "".join(SCRIPTS) and len(lines) == len(GOOD)


def test_a_prompt_of_code_is_raced_and_shown(visit_probed):
    page = visit_probed("prompt=units&mode=mars")
    expect(page.locator("#model input")).not_to_have_value("")
    texts = (*SCRIPTS, " ".join(SPECIAL), "\u202eabc\u202c")
    for prompt in ("\n".join(texts[at : at + 6]) for at in range(0, len(texts), 6)):
        page.locator("#prompt textarea").fill(prompt)
        page.locator("#run").click()
        shows(page, "#stage .prompt", prompt)
        expect(page.locator(".verdict")).to_contain_text("one token at a time;")
        expect(page.locator("#run")).to_be_enabled()
    page.locator('.lane[data-lane="mars"] .reply').click()  # the conversation is shown above
    shows(page, "#stage .turn .said", prompt)


def test_a_sentence_that_repeats_a_text_does_not_run_it(visit_probed):
    page = visit_probed("tab=frontier")
    expect(page.locator("#frontier-model input")).not_to_have_value("")
    page.locator("#frontier-taus textarea, #frontier-taus input").first.fill(SCRIPTS[1])
    page.locator("#frontier-run").click()
    expect(page.get_by_text("onerror").first).to_be_visible()


@pytest.mark.parametrize("name", FIELDS)
def test_an_address_of_code_opens_the_page(visit_probed, name):
    text = " ".join((*SCRIPTS[:4], "${window.__hit = 1}")) if name != "lane" else "constructor"
    tab = "&tab=mask" if name.startswith("mask") else "&tab=learn" if name == "chapter" else ""
    page = visit_probed(f"{name}={quote(text)}&pass=1e999{tab}")
    expect(page.locator("#model input")).not_to_have_value("")


@pytest.mark.parametrize("query", NO_NUMBERS)
def test_an_address_with_numbers_that_are_none_opens_the_page(visit_probed, query):
    page = visit_probed(query)
    expect(page.locator("#model input")).not_to_have_value("")
    if "pass" in query:
        expect(page.locator("#stage .token").first).to_be_attached()
    if "learn" in query:
        expect(page.locator("#chapter")).to_contain_text("1 of")
    if "mask" in query:
        expect(page.locator(".matrix [data-cells]").first).to_be_attached()
