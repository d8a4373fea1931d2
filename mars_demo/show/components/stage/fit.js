// The size of the answers: smaller while one of them is longer than its box.

import { find } from "../dom.js";

const SIZES = [1, 0.85, 0.7]; // of the type; a longer answer scrolls
const NARROW = SIZES.slice(1); // of three lanes or more, whose answers would soon move to a smaller size

/** Fit the answers of all lanes, in one size. A growing record never returns to a larger size. */
export function fitAnswers(/** @type {Record<string, any>} */ lanes, /** @type {boolean} */ growing) {
  const box = find(".lanes");
  const size = growing ? Number(box.style.getPropertyValue("--fit") || 1) : 1;
  const sizes = Object.keys(lanes).length > 2 ? NARROW : SIZES;
  for (const one of sizes.filter((smaller) => smaller <= size)) {
    box.style.setProperty("--fit", `${one}`);
    if (!Object.values(lanes).some(({ answer }) => answer.scrollHeight > answer.clientHeight + 1)) return;
  }
}
