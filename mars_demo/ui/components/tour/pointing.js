// What a step points at is outlined and scrolled to where the box does not cover it.

import { find } from "../dom.js";

const MARGIN = 12; // px around what is pointed at

let wanted = null; // the selector of what is pointed at
let target = null;

/** Whatever grows, the box or what is pointed at, both have their room. */
const resized = new ResizeObserver(() => {
  makeRoom();
  bringIntoView();
});

/** The page may make later, or anew, what is pointed at. */
const remade = new MutationObserver(() => {
  if (!target?.isConnected && document.querySelector(wanted)) aim();
});

/** Point at the part of the page that a selector names, or at nothing. */
export function pointAt(selector) {
  wanted = selector ?? null;
  remade.disconnect();
  if (wanted) remade.observe(document.body, { childList: true, subtree: true });
  aim();
}

function aim() {
  target?.removeAttribute("data-pointed");
  target = wanted && document.querySelector(wanted);
  resized.disconnect();
  resized.observe(find(".box"));
  makeRoom(); // the observer says nothing of a box that is hidden
  if (!target) return;
  target.dataset.pointed = "";
  resized.observe(target);
}

/** The page becomes longer by the box, so that everything on it can be scrolled above the box. */
function makeRoom() {
  const height = find(".box").offsetHeight; // 0 while it is hidden
  const room = height ? `${height + MARGIN}px` : "";
  document.body.style.paddingBottom = room;
  Object.assign(document.documentElement.style, { scrollPaddingTop: room && `${MARGIN}px`, scrollPaddingBottom: room });
}

function bringIntoView() {
  if (!target) return;
  const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth";
  const fits = target.offsetHeight <= innerHeight - find(".box").offsetHeight - 2 * MARGIN;
  target.scrollIntoView({ block: fits ? "nearest" : "start", behavior });
}
