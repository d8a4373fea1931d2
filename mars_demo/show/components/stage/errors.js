// Errors: a sentence is shown where something was pressed, and the stage stays as it is.

import { find, say } from "../dom.js";
import { redraw } from "./state.js";

/**
 * Show a sentence, or hide it if it is empty.
 * @param {string} sentence
 * @param {Element} [pressed] the sentence is shown above the row with this control, else below the heading
 */
export function showError(sentence, pressed) {
  const line = find(".error");
  const row = pressed?.closest(".stage > *");
  if (row) row.before(line);
  else find(".heading").after(line);
  say(line, sentence);
  line.hidden = !sentence;
  if (row) line.scrollIntoView({ block: "nearest" });
}

/**
 * @param {() => any} action
 * @param {Element} [pressed] a control
 */
export async function attempt(action, pressed) {
  try {
    showError("");
    await action();
  } catch (/** @type {any} */ error) {
    showError(error.message || String(error), pressed);
    redraw(); // resets the lists of recordings
  }
}
