// The first difference of two answers: the candidates of both slots.

import { find, make, say } from "../dom.js";
import { visible } from "../words.js";
import { alternative, whereOf } from "./card.js";
import { firstDifference } from "./passes.js";

const BEFORE = 60; // characters of the common text before the difference

let drawn = null; // the run

/** Compare `run` with another one when the race is `over`; hide the panel if their answers are the same. */
export function drawDifference(run, other, over) {
  const panel = find(".difference");
  const index = over ? differenceOf(run, other) : null;
  panel.hidden = index === null;
  if (panel.hidden) drawn = null;
  if (index === null || run === drawn) return;
  drawn = run;
  say(find(".difference-where", panel), `token ${index + 1}`);
  const before = other.texts.slice(0, index).join("");
  say(
    find(".difference-before", panel),
    `${before.length > BEFORE ? "…" : ""}${before.slice(-BEFORE).replaceAll("\n", "↵")}`,
  );
  find(".difference-both", panel).hidden = !index;
  find(".difference-sides", panel).replaceChildren(...[other, run].map((side) => sideOf(side, index)));
}

function differenceOf(run, other) {
  if (!run || !other || run === other || run.stopped || other.stopped) return null;
  return firstDifference(other.answerIds, run.answerIds);
}

function sideOf(run, index) {
  const side = make("div", "");
  side.append(make("h4", "", run.title));
  const place = run.placeOf(index);
  if (!place) {
    const given = run.given[index];
    side.append(
      make(
        "p",
        "where",
        given
          ? `“${visible(given[1])}” was given; no forward predicted it.`
          : "The answer was truncated before this token.",
      ),
    );
    return side;
  }
  const pass = run.passes[place.pass];
  const list = make("ol", "alternatives");
  list.append(...pass.slots[place.slot].top.map(alternative));
  side.append(make("p", "where", whereOf(run, pass, place.slot)), list);
  return side;
}
