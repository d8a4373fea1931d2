// Queries and constructors of DOM nodes. Texts of visitors and models are only ever set as `textContent`.

import { element } from "./component.js";

/**
 * Return the first match; `any`, as the callers know the kind of element.
 * @param {string} selector
 * @param {ParentNode} root
 * @returns {any}
 */
export const find = (selector, root = element) => root.querySelector(selector);

/**
 * @param {string} selector
 * @param {ParentNode} root
 * @returns {any[]}
 */
export const findAll = (selector, root = element) => [...root.querySelectorAll(selector)];

/**
 * @param {string} tag
 * @param {string} className
 * @returns {any} the kind of element of the tag
 */
export function make(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

/** Return an empty bar; the style sheet draws its track and its filled part. */
export function makeBar() {
  const bar = make("span", "bar");
  bar.append(make("i", ""));
  return bar;
}

export function fillBar(/** @type {any} */ bar, /** @type {number} */ share) {
  bar.firstChild.style.width = `${100 * share}%`;
}

/**
 * Draw a list with a bar per row.
 * @param {HTMLElement} list
 * @param {{ name: string, share: number, text: string }[]} rows
 */
export function drawBars(list, rows) {
  list.replaceChildren(
    ...rows.map(({ name, share, text }) => {
      const row = make("li", "row");
      const bar = makeBar();
      fillBar(bar, share);
      row.append(make("span", "row-name", name), bar, make("span", "part", text));
      return row;
    }),
  );
}

/**
 * Return an SVG element.
 * @param {string} tag
 * @returns {any}
 */
export const draw = (tag, attributes = {}) =>
  set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);

/**
 * Set the attributes of an element and return it.
 * @template {Element} T
 * @param {T} node
 * @param {object} attributes
 */
export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Set a text if it changed: screen readers announce every write to a live region, and a write costs layout. */
export function say(/** @type {Node} */ node, /** @type {string} */ text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Show on the button of the player what a press does: play, or pause what is playing. */
export function drawPlay(/** @type {boolean} */ isPlaying) {
  find(".play").classList.toggle("playing", isPlaying);
  say(find(".play"), isPlaying ? "Pause" : "Play");
}
