// Where a finished answer leaves the baseline's: the first token that differs, and what both slots could have held.

import { find, make, say } from "../dom.js";
import { alternative, whereOf } from "./card.js";
import { firstDifference } from "./passes.js";

const BEFORE = 60; // characters of what both sides wrote until then

let drawn = null; // the run

/** `run` against the baseline, in a race that is over; nothing where their answers are the same. */
export function drawDifference(run, baseline, over) {
  const panel = find(".difference");
  const index = over ? differenceOf(run, baseline) : null;
  panel.hidden = index === null;
  if (panel.hidden) drawn = null;
  if (panel.hidden || run === drawn) return;
  drawn = run;
  say(find(".difference-where", panel), `token ${index + 1}`);
  const before = baseline.accepted.slice(0, index).map(({ text }) => text).join("");
  say(find(".difference-before", panel), `${before.length > BEFORE ? "…" : ""}${before.slice(-BEFORE).replaceAll("\n", "↵")}`);
  find(".difference-both", panel).hidden = !index;
  find(".difference-sides", panel).replaceChildren(...[baseline, run].map((side) => sideOf(side, index)));
}

function differenceOf(run, baseline) {
  if (!run || !baseline || run === baseline || run.stopped || baseline.stopped) return null;
  return firstDifference(baseline.ids, run.ids);
}

function sideOf(run, index) {
  const side = make("div", "");
  side.append(make("h4", "", run.mode.title));
  const place = run.placeOf(index);
  if (!place) {
    side.append(make("p", "where", "The answer was cut before this token."));
    return side;
  }
  const pass = run.passes[place.pass];
  const list = make("ol", "alternatives");
  list.append(...pass.slots[place.slot].top.map(alternative));
  side.append(make("p", "where", whereOf(run, pass, place.slot)), list);
  return side;
}
