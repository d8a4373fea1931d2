// The talk view, large type and no prose, which `view=talk` in the address asks for; and the keys that work
// on every tab. Runs in the page's head, so that a talk never sees the small type first.

(() => {
  const page = document.documentElement;
  page.classList.toggle("talk", new URLSearchParams(location.search).get("view") === "talk");

  function leaveTalk() {
    const query = new URLSearchParams(location.search);
    query.delete("view");
    history.replaceState(history.state, "", query.size ? `?${query}` : location.pathname);
    page.classList.remove("talk");
  }

  const TYPING = "textarea, select, [contenteditable], input:not([type=range], [type=checkbox], [type=radio])";

  function press(key) {
    const tab = document.querySelectorAll("[role=tab]")[key - 1];
    const next = document.querySelector("[data-do=next]");
    if (tab) tab.click();
    else if (key.toLowerCase() === "n" && next?.closest(".stage").offsetParent) next.click();
    else if (key === "Escape" && page.matches(".talk")) leaveTalk();
  }

  // The window hears of a key after everything on the page.
  addEventListener("keydown", ({ key, target, defaultPrevented, ctrlKey, metaKey, altKey }) => {
    if (!defaultPrevented && !ctrlKey && !metaKey && !altKey && !target.closest?.(TYPING)) press(key);
  });
  addEventListener("click", ({ target, detail }) => {
    const button = target.closest?.("[data-key]");
    if (!button) return;
    press(button.dataset.key);
    if (detail) button.blur(); // pressed with a pointer: Space then plays and pauses, as everywhere
  });
})();
