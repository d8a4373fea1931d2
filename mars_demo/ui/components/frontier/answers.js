// The answers of a point: whether they are right, and where they first differ from AR's.

import { trigger } from "../component.js";
import { find, make, say } from "../dom.js";
import { plural } from "../words.js";
import { nameOf } from "./results.js";

const AT_ONCE = 20; // answers that are listed at first and that "more" adds

const KINDS = {
  wrong: ["wrong", ({ right }) => !right],
  different: ["different from AR", ({ difference }) => difference !== null],
  all: ["all", () => true],
};
let listed = AT_ONCE;
let shown = null; // the point

export function hideAnswers() {
  shown = null;
  find(".behind").hidden = true;
}

/** Draw the answers of a point of `model`. */
export function drawAnswers(point, model) {
  const panel = find(".behind");
  panel.hidden = false;
  if (shown === point) return;
  shown = point;
  listed = AT_ONCE;
  say(find("h3", panel), nameOf(point));
  const kinds = Object.entries(KINDS).map(([kind, [words, belongs]]) => [
    kind,
    words,
    point.answers.filter(belongs).length,
  ]);
  find("select", panel).replaceChildren(
    ...kinds.map(([kind, words, count]) => optionOf(kind, `${words} (${count})`)),
  );
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
  const answers = point.answers.filter(KINDS[find("select", panel).value][1]);
  const rows = answers.slice(0, listed).map((answer) => rowOf(answer, point, model));
  find("ol", panel).replaceChildren(...(rows.length ? rows : [make("li", "none", "None.")]));
  const left = answers.length - rows.length;
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

function rowOf({ prompt, text, right, difference }, { mode, tau, criterion }, model) {
  const button = make("button", "answer");
  button.type = "button";
  button.append(
    make("b", "mark", right ? "✓ right" : "✗ wrong"),
    make("span", "prompt", prompt),
    make("span", "text", text ?? ""),
  );
  const where = difference === null ? "same tokens as AR" : `differs from AR at token ${difference + 1}`;
  if (mode !== "ar") button.append(make("span", "where", where));
  button.addEventListener("click", () => trigger("opened", { prompt, mode, tau, criterion, model }));
  const row = make("li", "");
  row.append(button);
  return row;
}
