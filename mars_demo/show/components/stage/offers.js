// The line below the verdict: the cause of the result, and examples that show more.

import { constants, trigger } from "../component.js";
import { find, make, say, set } from "../dom.js";
import { causeOf } from "./cause.js";
import { runs, redraw, stage } from "./state.js";

const OFFERED = 2;

let examples = constants.examples; // those of the page; none on a page without a prompt box

/** Take the examples of a page that has a prompt box of its own. */
export function takeExamples(given) {
  examples = given;
  redraw();
}

export function drawCause() {
  const cause = causeOf(stage.reader.runs);
  find(".cause").hidden = !cause;
  say(find(".because"), cause?.sentence ?? "");
  drawOffers(find(".offers"), cause?.offers ? offered() : []);
}

/** Return examples with a gain that were made for the model on the stage, except its own prompt. */
function offered() {
  const { model } = runs()[0].settings;
  const prompts = runs().map(({ settings }) => settings.prompt);
  return examples
    .filter((one) => one.fast && one.model === model && !prompts.includes(one.prompt))
    .slice(0, OFFERED);
}

function drawOffers(node, list) {
  node.hidden = !list.length;
  const ids = list.map(({ id }) => id).join();
  if (node.dataset.ids === ids) return;
  node.dataset.ids = ids;
  node.replaceChildren("Try", ...list.map(buttonOf));
}

function buttonOf({ id, title, prompt }) {
  const button = make("button", "", title.split(":")[0]);
  return set(button, { type: "button", "data-do": "example", value: id, title: prompt });
}

/** Put an example into the prompt box; the visitor runs it. */
export function putExample({ value }) {
  trigger("example", { prompt: examples.find(({ id }) => id === value).prompt });
}
