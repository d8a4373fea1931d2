// A page without Gradio: how it looks to whom, and what Gradio would give to the scripts of components.

const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

/** The theme of the system; a talk where the address asks for it. */
function dress() {
  root.classList.toggle("dark", dark.matches);
  root.classList.toggle("talk", location.hash === "#talk" || new URLSearchParams(location.search).get("view") === "talk");
}

dark.addEventListener("change", dress);
addEventListener("hashchange", dress);
addEventListener("keydown", ({ key, defaultPrevented }) => {
  if (key === "Escape" && !defaultPrevented) root.classList.remove("talk");
});
dress();

/** Run a component's script for each of its figures. No server answers it, and nobody listens to its events. */
function start(name, script) {
  for (const element of document.querySelectorAll(`[data-figure="${name}"]`)) {
    const value = element.nextElementSibling.textContent;
    // Its own value would be that of a race which may still grow; this is a whole record.
    const stage = element.querySelector(":scope > .stage");
    script({ element, props: { value: stage ? "" : value }, watch() {}, trigger() {}, server: {} });
    stage?.dispatchEvent(new CustomEvent("record", { detail: value }));
  }
}
