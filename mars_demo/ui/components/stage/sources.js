// Where tokens came from, in the words that Python hands over.

import { constants } from "../component.js";
import { find, make, say } from "../dom.js";

const words = new Map(Object.entries(constants.sources));

/** Copied tokens have a mark of their own, wherever they are shown. */
export const isCopy = ({ source }) => source === "copy";

/** One slot's source in a sentence; nothing where its record does not say. */
export const sourceText = ({ source }) => (words.has(source) ? `Source: ${source} (${words.get(source)}).` : "");

/** How many of these slots came from where, which is also the key to the mark of copies. Nothing where all of them
 * are the model's own or the record does not say. */
export function drawSources(list, slots) {
  const counts = [...words.keys()].map((source) => [source, slots.filter((slot) => slot.source === source).length]);
  const found = counts.filter(([, count]) => count);
  list.hidden = !found.some(([source]) => source !== "model");
  while (list.children.length > found.length) list.lastChild.remove();
  while (list.children.length < found.length) list.append(make("li", ""));
  if (list.hidden) return;
  found.forEach(([source, count], index) => {
    const item = list.children[index];
    if (item.dataset.source !== source) {
      item.dataset.source = source;
      item.title = words.get(source);
      item.replaceChildren(make("b", ""), make("span", isCopy({ source }) ? "copied" : "", source));
    }
    say(find("b", item), `${count}`);
  });
}
