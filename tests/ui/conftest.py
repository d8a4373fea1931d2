"""A real app and browser per session, and a page per module that each test reopens."""

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from gate import Gate
from playwright.sync_api import expect

from mars_demo.cli.space import write_gallery
from mars_demo.show import recordings
from mars_demo.ui import options, race_settings
from mars_demo.ui.hosting.registry import MODELS
from mars_demo.ui.page import App, build
from mars_demo.ui.stage import Stage
from mars_demo.ui.tabs import SERVED

HANG_GUARD = 120_000  # milliseconds; an idle machine needs a second or two
DESKTOP = {"width": 1280, "height": 900}

expect.set_options(timeout=HANG_GUARD)


@pytest.fixture(scope="session")
def demo():
    """Run an app that serves only the tiny models, which answer in milliseconds, as on a lent GPU."""
    MODELS.serve(options.read_options(["--only", "--model", "mars-tiny", "--model", "ar-tiny"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race_settings, "WATCH", False)
        served = build()
    served.launch(prevent_thread_lock=True, quiet=True)
    # Without costs, windows do not depend on the load of the machine.
    MODELS.member("mars-tiny").checkpoint = replace(MODELS.load(), costs=None)
    yield served
    served.close()


@pytest.fixture
def slow(monkeypatch):
    """Let a watched race take a second per forward: minutes."""
    monkeypatch.setattr("mars_demo.ui.knobs.FORWARDS_PER_SECOND", 1)


@pytest.fixture(scope="session")
def url(demo):
    """Return the URL of the app."""
    return demo.local_url


@pytest.fixture(scope="session")
def stage_url():
    """Yield the URL of a page with only the stage and its recorded runs; no model is loaded."""
    with App() as demo:
        Stage(entries=recordings.index(), served=SERVED)
    _, launched_url, _ = demo.launch(prevent_thread_lock=True, quiet=True)
    yield launched_url
    demo.close()


@pytest.fixture(scope="session")
def gallery(tmp_path_factory):
    """Write the gallery, with its live page and the smallest model."""
    folder = tmp_path_factory.mktemp("site") / "gallery"
    write_gallery(folder, ["mars-tiny"], "me/site")
    return folder


@contextmanager
def checked_context(browser, *allowed: str, **options):
    """Yield a browser context and its troubles so far, of which none may be left at its end.

    Troubles are script errors and dialogs; with `allowed` also errors in the console, and requests for URLs
    that begin otherwise.
    """
    context, troubles = browser.new_context(**{"viewport": DESKTOP} | options), []
    context.set_default_timeout(HANG_GUARD)
    context.on("weberror", lambda error: troubles.append(error.error.stack or str(error.error)))
    context.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
    if allowed:
        context.on("request", lambda sent: sent.url.startswith(allowed) or troubles.append(sent.url))
        context.on("console", lambda said: said.type == "error" and troubles.append(said.text))
    yield context, troubles
    context.close()
    assert not troubles


def shared_page(browser, script: str = ""):
    """Yield a page that runs a script first, and the troubles on it."""
    with checked_context(browser, reduced_motion="reduce") as (context, troubles):
        context.add_init_script(script)
        yield context.new_page(), troubles


@pytest.fixture(scope="module")
def module_page(browser):
    """Yield one page for a module's tests: the app reopens twice as fast on a page with cached files."""
    yield from shared_page(browser)


@pytest.fixture
def stage(module_page, stage_url):
    """Open the stage alone on the module's page, where a test puts its own records."""
    page, troubles = module_page
    troubles.clear()
    if not page.url.startswith(stage_url):
        page.set_viewport_size(DESKTOP)
        page.emulate_media(reduced_motion="reduce")
        page.goto(stage_url)
        expect(page.locator(".token").first).to_be_attached()  # a recorded run
    page.mouse.move(0, 0)
    page.evaluate("document.activeElement.blur(), scrollTo(0, 0)")
    yield page
    assert not troubles


@pytest.fixture
def visit(browser, url, module_page):
    """Open the app as a visitor; a script error or a dialog fails the test.

    The first visitor of a test uses the module's page. Later visitors, and visits with `options` that an
    open page cannot change, get their own pages. Motion is reduced unless `reduced_motion` says otherwise.
    """
    page, troubles = module_page
    troubles.clear()
    contexts, free = ExitStack(), [page]

    def open_page(query: str = "", base_url: str = url, **options):
        viewport, scheme = options.pop("viewport", DESKTOP), options.pop("color_scheme", None)
        looks = {"reduced_motion": options.pop("reduced_motion", "reduce"), "color_scheme": scheme}
        if free and not options:
            opened = free.pop()
            opened.set_viewport_size(viewport)
            opened.emulate_media(**looks)
        else:
            looks |= {"viewport": viewport}
            context, _ = contexts.enter_context(checked_context(browser, **looks, **options))
            opened = context.new_page()
        opened.goto(f"{base_url}?{query}")
        return opened

    with contexts:
        yield open_page
    if not free:
        assert not page.is_closed(), "the first page belongs to all tests of the module"
        _leave(page)
    assert not troubles


def _leave(page) -> None:
    """Remove the app, storage, route handlers and pointer of a test from the module's page."""
    page.unroute_all()
    page.evaluate("try { localStorage.clear(); sessionStorage.clear(); } catch {}")
    page.goto("about:blank")
    page.mouse.move(0, 0)


@pytest.fixture
def visit_file(browser):
    """Open a page from disk without a network; it may read only itself and the contents of `folder`."""
    with ExitStack() as contexts:

        def open_file(path: Path, ending: str = "", folder: Path | None = None, **options):
            own = f"{folder.as_uri()}/" if folder else path.as_uri()
            allowed = (own, "data:", "blob:")
            context, _ = contexts.enter_context(checked_context(browser, *allowed, offline=True, **options))
            page = context.new_page()
            page.goto(path.as_uri() + ending)
            return page

        yield open_file


@pytest.fixture
def gate(url):
    """Hold the forwards of the default model after the first few, until the test opens the gate."""
    gate = Gate(MODELS.load().model.base_model)
    yield gate
    gate.remove()
