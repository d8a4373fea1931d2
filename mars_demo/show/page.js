// The app's page: the talk view (`view=talk` in the URL: large type, no prose), the keys of all tabs, and the
// functions that Gradio's events call. It runs in the page's head, so that a talk never flashes small type.

import * as url from "./url.js";

const page = document.documentElement;
page.classList.toggle("talk", url.queryValue("view") === "talk");
Object.assign(/** @type {any} */ (globalThis), { marsDemo: { ...url, openChapter, showStage } });

let openTab = "race"; // the page's first

/** Write the tab that a visitor or Python has opened, and show its top. */
function followTab() {
  const tab = /** @type {HTMLElement | null} */ (document.querySelector("[role=tab][aria-selected=true]"));
  const name = tab?.dataset.tabId ?? openTab;
  if (name === openTab) return;
  openTab = name;
  url.writeTab(name);
  showTop(tab?.closest(".tabs"));
}

new MutationObserver(followTab).observe(page, { subtree: true, attributeFilter: ["aria-selected"] });

/** Scroll up to a node whose top is out of view. */
function showTop(/** @type {Element | null | undefined} */ node) {
  if (node && node.getBoundingClientRect().top < 0) node.scrollIntoView();
}

/** Write the open chapter, and show its heading. */
function openChapter(/** @type {string[]} */ ids, /** @type {string} */ heading) {
  url.writeChapter(ids, heading);
  showTop(document.querySelector("#learn-page"));
  const [list, chosen] = ["#chapters", "#chapters label:has(:checked)"].map((one) =>
    document.querySelector(one),
  );
  if (list && chosen)
    list.scrollTop += chosen.getBoundingClientRect().top - list.getBoundingClientRect().top - 20;
}

/** Show what another tab has brought to the stage, which on a phone is below the controls. */
function showStage() {
  if (matchMedia("(max-width: 640px)").matches) document.querySelector("#stage")?.scrollIntoView();
}

function leaveTalk() {
  url.setQuery({ view: null });
  page.classList.remove("talk");
}

const TYPING =
  "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])";
const USING_ARROWS =
  "input:not(#chapters *), textarea, select, table, [role=tab], [role=application], [role=slider], .stage *";

/** @param {string} key */
function press(key) {
  const tab = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("[role=tab]")])[Number(key) - 1];
  const next = /** @type {HTMLElement | null} */ (document.querySelector("[data-do=next]"));
  if (tab) tab.click();
  else if (key.toLowerCase() === "n" && isVisible(next?.closest(".stage"))) next?.click();
  else if (key === "?") showKeys();
  else if (key === "Escape" && page.matches(".talk")) leaveTalk();
}

/** Open or close the list of keys. */
function showKeys() {
  const keys = /** @type {HTMLDetailsElement} */ (document.querySelector("#keys details"));
  keys.open = !keys.open;
  if (keys.open) keys.scrollIntoView();
}

/** Run the prompt of a text box, as Shift+Enter does in Gradio. */
const submit = (/** @type {Element} */ box) =>
  box.dispatchEvent(new KeyboardEvent("keypress", { key: "Enter", shiftKey: true, bubbles: true }));

/** @param {any} node */
const isVisible = (node) => Boolean(node?.offsetParent);

/** Turn the pages of the Learn tab with the arrow keys. */
function turn(key) {
  const button = document.querySelector({ ArrowRight: "#next", ArrowLeft: "#back" }[key]);
  if (isVisible(button)) button.click();
}

// On the window, so that everything on the page handles a key before.
addEventListener("keydown", ({ key, target, defaultPrevented, ctrlKey, metaKey, altKey }) => {
  const node = /** @type {Element} */ (target);
  if (key === "Enter" && (ctrlKey || metaKey) && node.matches?.("textarea")) submit(node);
  if (defaultPrevented || ctrlKey || metaKey || altKey) return;
  if (!node.closest?.(TYPING)) press(key);
  if (!node.matches?.(USING_ARROWS)) turn(key);
});
addEventListener("click", ({ target, detail }) => {
  const button = /** @type {HTMLElement | null} */ (
    /** @type {Element} */ (target).closest?.("[data-key]")
  );
  if (!button) return;
  press(button.dataset.key ?? "");
  if (detail) button.blur(); // after a click, Space plays and pauses as elsewhere
});
