// The part of the page that a step points at: outlined and scrolled into view above the box.

import { find } from "../dom.js";

const MARGIN = 12; // px around the target

let selector = null; // of the target
let target = null;

/** Make room again when the size of the box or of the target changes. */
const sizes = new ResizeObserver(() => {
  makeRoom();
  bringIntoView();
});

/** Find the target again when the page renders it later or anew. */
const additions = new MutationObserver(() => {
  if (!target?.isConnected && document.querySelector(selector)) aim();
});

/** Point at the part of the page that matches a selector, or at nothing. */
export function pointAt(next) {
  selector = next ?? null;
  additions.disconnect();
  if (selector) additions.observe(document.body, { childList: true, subtree: true });
  aim();
}

function aim() {
  target?.removeAttribute("data-pointed");
  target = selector && document.querySelector(selector);
  sizes.disconnect();
  sizes.observe(find(".box"));
  makeRoom(); // the observer does not report a hidden box
  if (!target) return;
  target.dataset.pointed = "";
  sizes.observe(target);
}

/** Make the page longer by the box, so that everything can be scrolled above it. */
function makeRoom() {
  const height = find(".box").offsetHeight; // 0 while it is hidden
  const room = height ? `${height + MARGIN}px` : "";
  document.body.style.paddingBottom = room;
  Object.assign(document.documentElement.style, {
    scrollPaddingTop: room && `${MARGIN}px`,
    scrollPaddingBottom: room,
  });
}

function bringIntoView() {
  if (!target) return;
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  const fits = target.offsetHeight <= innerHeight - find(".box").offsetHeight - 2 * MARGIN;
  target.scrollIntoView({ block: fits ? "nearest" : "start", behavior });
}
