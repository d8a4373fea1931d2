// The sources of tokens, with descriptions from Python.

import { constants } from "../component.js";
import { find, make, say } from "../dom.js";

const words = new Map(Object.entries(constants.sources));

/** Whether a slot is an n-gram draft, which has its own mark wherever it is shown. */
export const isCopy = ({ source }) => source === "copy";

/** Return a slot's source as a sentence; empty if it is not recorded. */
export const sourceText = (/** @type {import("../record.js").Slot} */ { source }) =>
  source && words.has(source) ? `Source: ${source} (${words.get(source)}).` : "";

/**
 * Draw the number of slots per source, which is also the legend of the mark of n-gram drafts. Hide the list
 * if the model itself predicted all slots or the sources are not recorded.
 */
export function drawSources(list, slots) {
  const counts = [...words.keys()].map((source) => [
    source,
    slots.filter((slot) => slot.source === source).length,
  ]);
  const present = counts.filter(([, count]) => count);
  list.hidden = !present.some(([source]) => source !== "model");
  while (list.children.length > present.length) list.lastChild.remove();
  while (list.children.length < present.length) list.append(make("li", ""));
  if (list.hidden) return;
  present.forEach(([source, count], index) => {
    const item = list.children[index];
    if (item.dataset.source !== source) {
      item.dataset.source = source;
      item.title = words.get(source);
      item.replaceChildren(make("b", ""), make("span", isCopy({ source }) ? "copied" : "", source));
    }
    say(find("b", item), `${count}`);
  });
}
