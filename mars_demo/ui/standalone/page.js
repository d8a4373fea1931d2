// A page without Gradio: its theme, and what Gradio would pass to the scripts of components.

const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

/** Apply the theme of the system, and the talk view if the URL requests it. */
function dress() {
  root.classList.toggle("dark", dark.matches);
  root.classList.toggle(
    "talk",
    location.hash === "#talk" || new URLSearchParams(location.search).get("view") === "talk",
  );
}

dark.addEventListener("change", dress);
addEventListener("hashchange", dress);
addEventListener("keydown", ({ key, defaultPrevented }) => {
  if (key === "Escape" && !defaultPrevented) root.classList.remove("talk");
});
dress();

const server = {}; // what components ask the app's server for; a page's own script may answer instead

/**
 * Run a component's script for each of its figures. A figure's events are those of its element, where an
 * event `value` sets a new value.
 */
// biome-ignore lint/correctness/noUnusedVariables: the page calls it
function start(name, script) {
  for (const element of document.querySelectorAll(`[data-figure="${name}"]`)) {
    const value = element.nextElementSibling.textContent;
    // The stage gets the complete record as an event: its value would be a race that may still grow.
    const stage = element.querySelector(":scope > .stage");
    const props = { value: stage ? "" : value };
    const trigger = (event, detail) => element.dispatchEvent(new CustomEvent(event, { detail }));
    const watch = (_, changed) =>
      element.addEventListener("value", ({ detail }) => {
        props.value = detail;
        changed();
      });
    script({ element, props, watch, trigger, server });
    stage?.dispatchEvent(new CustomEvent("record", { detail: value }));
  }
}
