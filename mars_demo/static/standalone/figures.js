// A page without Gradio: its theme, and what Gradio would give to the scripts of components.

import { queryValue } from "../../show/url.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

/** Apply the theme of the system, and the talk view if the URL requests it. */
function dress() {
  root.classList.toggle("dark", dark.matches);
  root.classList.toggle("talk", location.hash === "#talk" || queryValue("view") === "talk");
}

/**
 * Dress the page, and start its figures once it has been read. A figure's events are those of its element.
 * @param {Given["server"]} server answers what components ask the app's server for
 */
export function begin(server = {}) {
  dark.addEventListener("change", dress);
  addEventListener("hashchange", dress);
  addEventListener("keydown", ({ key, defaultPrevented }) => {
    if (key === "Escape" && !defaultPrevented) root.classList.remove("talk");
  });
  dress();
  addEventListener("DOMContentLoaded", () => {
    for (const element of document.querySelectorAll("[data-figure]"))
      start(/** @type {HTMLElement} */ (element), server);
    share();
  });
}

/** Offer the link of this page and HTML that embeds it, unless it is on a disk. */
function share() {
  const shared = /** @type {HTMLElement | null} */ (document.querySelector(".share"));
  if (!shared || location.protocol === "file:") return;
  shared.hidden = false;
  const frame = document.createElement("iframe");
  for (const button of shared.querySelectorAll("button"))
    button.addEventListener("click", async () => {
      Object.assign(frame, { src: location.href, title: document.title, loading: "lazy" });
      frame.style.cssText = "width: 100%; height: 720px; border: 0";
      const text = button.matches(".embed") ? frame.outerHTML : location.href;
      const copied = await navigator.clipboard.writeText(text).then(
        () => "Copied",
        () => text, // this browser allows no page to copy
      );
      shared.querySelector("output")?.replaceChildren(copied);
    });
}

function start(/** @type {HTMLElement} */ element, /** @type {Given["server"]} */ server) {
  const { figure, constants } = /** @type {Record<string, string>} */ (element.dataset);
  marsDemo[figure]({
    element,
    props: { value: element.nextElementSibling?.textContent ?? "", whole: true },
    constants: JSON.parse(constants),
    server,
    trigger: (event, detail) => element.dispatchEvent(new CustomEvent(event, { detail })),
    watch() {},
  });
}
