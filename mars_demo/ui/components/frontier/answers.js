// The answers behind a point: which are wrong, and where they leave AR's.

import { trigger } from "../component.js";
import { find, make, say } from "../dom.js";
import { plural } from "../words.js";
import { nameOf } from "./results.js";

const AT_ONCE = 20; // answers that are listed, and those that each press on "more" adds

const KINDS = {
  wrong: ["wrong", ({ right }) => !right],
  parted: ["not AR's answer", ({ parted }) => parted !== null],
  all: ["all", () => true],
};
let listed = AT_ONCE;
let shown = null; // the point

export function hideAnswers() {
  shown = null;
  find(".behind").hidden = true;
}

/** The answers behind a point of `model`. */
export function drawAnswers(point, model) {
  const panel = find(".behind");
  panel.hidden = false;
  if (shown === point) return;
  shown = point;
  listed = AT_ONCE;
  say(find("h3", panel), nameOf(point));
  const kinds = Object.entries(KINDS).map(([kind, [words, belongs]]) => [kind, words, point.answers.filter(belongs).length]);
  find("select", panel).replaceChildren(...kinds.map(([kind, words, count]) => optionOf(kind, `${words} (${count})`)));
  find("select", panel).value = (kinds.find(([kind, , count]) => count && kind !== "all") ?? ["all"])[0];
  list(point, model);
}

function optionOf(value, text) {
  const option = make("option", "", text);
  option.value = value;
  return option;
}

function list(point, model) {
  const panel = find(".behind");
  const found = point.answers.filter(KINDS[find("select", panel).value][1]);
  const rows = found.slice(0, listed).map((answer) => rowOf(answer, point, model));
  find("ol", panel).replaceChildren(...(rows.length ? rows : [make("li", "none", "None.")]));
  const left = found.length - rows.length;
  const more = find('[data-do="more"]', panel);
  more.hidden = left <= 0;
  say(more, `${Math.min(left, AT_ONCE)} more of ${plural(left, "answer")}`);
}

export function listMore(model) {
  listed += AT_ONCE;
  list(shown, model);
}

export function listOthers(model) {
  listed = AT_ONCE;
  list(shown, model);
}

function rowOf({ prompt, text, right, parted }, { mode, tau, criterion }, model) {
  const button = make("button", "answer");
  button.type = "button";
  button.append(make("b", "mark", right ? "✓ right" : "✗ wrong"), make("span", "prompt", prompt), make("span", "text", text ?? ""));
  const where = parted === null ? "AR's answer, token for token" : `leaves AR's answer at token ${parted + 1}`;
  if (mode !== "ar") button.append(make("span", "where", where));
  button.addEventListener("click", () => trigger("opened", { prompt, mode, tau, criterion, model }));
  const row = make("li", "");
  row.append(button);
  return row;
}
