// The talk view (`view=talk` in the URL: large type, no prose) and the keys of all tabs. It runs in the
// page's head, so that a talk never flashes small type.

(() => {
  const page = document.documentElement;
  page.classList.toggle("talk", new URLSearchParams(location.search).get("view") === "talk");

  function leaveTalk() {
    const query = new URLSearchParams(location.search);
    query.delete("view");
    history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
    page.classList.remove("talk");
  }

  const TYPING =
    "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])";

  function press(key) {
    const tab = document.querySelectorAll("[role=tab]")[key - 1];
    const next = document.querySelector("[data-do=next]");
    if (tab) tab.click();
    else if (key.toLowerCase() === "n" && next?.closest(".stage").offsetParent) next.click();
    else if (key === "Escape" && page.matches(".talk")) leaveTalk();
  }

  // On the window, so that everything on the page handles a key before.
  addEventListener("keydown", ({ key, target, defaultPrevented, ctrlKey, metaKey, altKey }) => {
    if (!defaultPrevented && !ctrlKey && !metaKey && !altKey && !target.closest?.(TYPING)) press(key);
  });
  addEventListener("click", ({ target, detail }) => {
    const button = target.closest?.("[data-key]");
    if (!button) return;
    press(button.dataset.key);
    if (detail) button.blur(); // after a click, Space plays and pauses as elsewhere
  });
})();
