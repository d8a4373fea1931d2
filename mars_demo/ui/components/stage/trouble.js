// Errors: a sentence is shown, and the stage stays as it is.

import { find, say } from "../dom.js";
import { show } from "./state.js";

export function complain(sentence) {
  say(find(".trouble"), sentence);
  find(".trouble").hidden = !sentence;
}

export async function attempt(action) {
  try {
    complain("");
    await action();
  } catch (error) {
    complain(error.message || String(error));
    show(); // resets the lists of the shelf
  }
}
