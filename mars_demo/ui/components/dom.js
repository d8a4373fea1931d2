// Finding and making nodes. Text from people or models goes through `textContent` alone.

import { element } from "./component.js";

export const find = (selector, root = element) => root.querySelector(selector);
export const findAll = (selector, root = element) => [...root.querySelectorAll(selector)];

export function make(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

/** A bar in its track; a style sheet gives both their looks. */
export function makeBar() {
  const bar = make("span", "bar");
  bar.append(make("i", ""));
  return bar;
}

export function fillBar(bar, share) {
  bar.firstChild.style.width = `${100 * share}%`;
}

/** An SVG element. */
export const draw = (tag, attributes = {}) => set(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes);

export function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

/** Write only what changed: a live region speaks at every write, and a write costs layout. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
