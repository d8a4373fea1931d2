// Errors: a sentence is shown, and the stage stays as it is.

import { find, say } from "../dom.js";
import { redraw } from "./state.js";

export function showError(sentence) {
  say(find(".error"), sentence);
  find(".error").hidden = !sentence;
}

/** @param {() => any} action */
export async function attempt(action) {
  try {
    showError("");
    await action();
  } catch (/** @type {any} */ error) {
    showError(error.message || String(error));
    redraw(); // resets the lists of recordings
  }
}
