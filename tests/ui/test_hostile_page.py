"""Untrusted text is shown and never run: prompts, answers, records, URLs, names and messages.

A probe in every page detects code that a browser runs or would run: a canary, dialogs, elements and
attributes with code, and violations of a content-security policy without inline code.
"""

from urllib.parse import urlencode

import pytest
from conftest import shared_page
from hostile import NAMES, ODD, PATHS, SCRIPTS, SPECIAL, with_texts
from on_stage import give
from playwright.sync_api import Page, expect
from race_tab import is_ready, prompt, race, run_button, to_the_end

# Gradio's page starts with inline scripts; later ones come from its server.
POLICY = "script-src-elem 'self' https:; script-src-attr 'none'; object-src 'none'; frame-src 'none'"
CODE = " ".join((*SCRIPTS[:4], "${window.__hit = 1}"))
# URL fields with code, of each kind where it is read, and invalid numbers.
URLS = (
    urlencode(dict.fromkeys(("prompt", "run", "model", "mode", "tau", "criterion", "watch", "tab"), CODE)),
    urlencode({"mask_sentence": CODE, "mask_kind": CODE, "tab": "mask", "pass": "1e999"}),
    urlencode({"chapter": CODE, "lane": "constructor", "tab": "learn", "pass": "-1"}),
    "pass=-1&lane=constructor",
    "pass=0.5&lane=mars",
    "pass=1e999",
    "chapter=²&tab=learn",
    "tau=nan&watch=inf",
    f"mask_length={'9' * 5000}&tab=mask",
)
PROBE = """
window.__found = [];
const note = (what) => window.__found.push(what);
Object.defineProperty(window, "__hit", { set: () => note("the canary was set"), get: () => undefined });
for (const name of ["alert", "confirm", "prompt"]) window[name] = () => note(name);
addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) =>
  note(`policy: ${violatedDirective} ${blockedURI} ${sample}`));
const CODE = /^\\s*(javascript:|data:text\\/html|vbscript:)/i;
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


def findings(page: Page) -> list[str]:
    page.evaluate("() => new Promise(requestAnimationFrame)")
    return page.evaluate("window.__found")


@pytest.fixture(scope="module")
def probed_page(browser):
    """Yield one page with the probe, which every load restarts."""
    yield from shared_page(browser, PROBE)


@pytest.fixture
def visit_probed(probed_page, url):
    """Open the probed page; at the end, require no findings of the probe and no script errors."""
    page, troubles = probed_page
    troubles.clear()

    def open_page(query: str = "", base_url: str = url) -> Page:
        page.goto(f"{base_url}?{query}")
        page.locator(".stage").first.wait_for(state="attached")
        page.evaluate(FORBID, POLICY)
        return page

    yield open_page
    troubles += findings(page)
    page.goto("about:blank")
    assert troubles == []


@pytest.fixture
def stage(visit_probed, stage_url):
    page = visit_probed("", stage_url)
    expect(page.locator(".token").first).to_be_attached()
    return page


def test_the_probe_detects_code(probed_page, stage_url):
    page, troubles = probed_page
    page.goto(stage_url)
    expect(page.locator(".token").first).to_be_attached()
    for code, text in (
        ("document.body.insertAdjacentHTML('beforeend', text)", SCRIPTS[1]),
        ("document.body.append(document.createRange().createContextualFragment(text))", SCRIPTS[0]),
        ("new Function('return `' + text + '`')()", "${window.__hit = 1}"),
        ("document.body.appendChild(document.createElement('a')).href = text", "javascript:window.__hit=1"),
    ):
        assert findings(page) == []
        page.evaluate(f"text => {{ {code}; }}", text)
        page.wait_for_function("window.__found.length > 0")
        page.evaluate("window.__found.length = 0")
        if text == SCRIPTS[1]:  # its picture fails to load later, which is also reported
            page.goto(stage_url)
            expect(page.locator(".token").first).to_be_attached()


def shows(page: Page, selector: str, text: str) -> None:
    """Wait until the first such node has exactly this text."""
    is_there = "([selector, text]) => document.querySelector(selector)?.textContent === text"
    page.wait_for_function(is_there, arg=[selector, text])


def test_texts_of_a_record_are_shown_unchanged(stage):
    for text in (*SCRIPTS, *SPECIAL, *NAMES, *PATHS, *ODD, "\n  white\tspace  "):
        if not text or any("\ud800" <= character <= "\udfff" for character in text):
            continue
        give(stage, with_texts(text))
        shows(stage, "#stage .prompt", text)
        shows(stage, "#stage .token", text)
        if text in SCRIPTS:
            stage.locator("#stage .token").first.dispatch_event("click")  # the card of a token
            expect(stage.locator("#stage .card .alternatives .candidate").first).to_be_attached()
            expect(stage.locator("#stage .note")).to_contain_text(text)


def test_a_prompt_with_code_is_raced_and_shown(visit_probed):
    page = visit_probed("prompt=units&mode=mars&max_new_tokens=24")
    is_ready(page)
    texts = (*SCRIPTS, " ".join(SPECIAL), "\u202eabc\u202c")
    for text in ("\n".join(texts[at::2]).strip() for at in range(2)):
        prompt(page).fill(text)
        race(page)
        shows(page, "#stage .prompt", text)
        to_the_end(page)
        expect(prompt(page)).to_have_value(text)

    page.get_by_role("tab", name="Frontier").click()  # where a message repeats the typed text
    expect(page.locator("#frontier-model input")).not_to_have_value("")
    page.locator("#frontier-taus textarea, #frontier-taus input").first.fill(SCRIPTS[1])
    page.locator("#frontier-run").click()
    expect(page.get_by_text("onerror").locator("visible=true").first).to_be_visible()
    expect(run_button(page)).to_be_enabled()


@pytest.mark.parametrize(
    "query", [URLS[0], *(pytest.param(query, marks=pytest.mark.full) for query in URLS[1:])]
)
def test_a_url_with_code_or_invalid_numbers_opens_the_page(visit_probed, query):
    page = visit_probed(query)
    is_ready(page)
    if "learn" in query:
        expect(page.locator("#chapter")).to_be_visible()
    elif "mask" in query:
        expect(page.locator(".matrix [data-cells]").first).to_be_attached()
    elif "pass" in query:
        expect(page.locator("#stage .token").first).to_be_attached()
