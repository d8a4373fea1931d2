// The sources of tokens, with descriptions from Python.

import { constants } from "../component.js";
import { make } from "../dom.js";

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
  const counts = [...words.keys()]
    .map((source) => ({ source, count: slots.filter((slot) => slot.source === source).length }))
    .filter(({ count }) => count);
  list.hidden = !counts.some(({ source }) => source !== "model");
  list.replaceChildren(
    ...counts.map(({ source, count }) => {
      const item = make("li", "");
      item.dataset.source = source;
      item.title = words.get(source);
      item.append(make("b", "", `${count}`), make("span", isCopy({ source }) ? "copied" : "", source));
      return item;
    }),
  );
}
