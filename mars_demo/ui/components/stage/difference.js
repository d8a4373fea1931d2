// The first difference of two answers: the candidates of both slots, and the probabilities of both tokens
// on either side.

import { find, make, say } from "../dom.js";
import { percent, visible } from "../words.js";
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
  drawOdds(find(".odds", panel), [other, run], index);
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

// ------------------------------------------------------------------- both tokens on either side

const slotAt = (run, index) => {
  const place = run.placeOf(index);
  return place && { ...place, slot: run.passes[place.pass].slots[place.slot], number: place.slot + 1 };
};

/** Draw a row per side and a column per token. */
function drawOdds(table, sides, index) {
  const slots = sides.map((run) => slotAt(run, index));
  const tokens = sides.map(
    (run, side) =>
      slots[side]?.slot ?? (run.given[index] && { id: run.given[index][0], text: run.given[index][1] }),
  );
  table.hidden = !tokens.every(Boolean) || !slots.some(Boolean);
  if (table.hidden) return;
  const head = make("tr", "");
  head.append(make("td", ""), ...tokens.map(({ text }) => header(`“${visible(text) || "end"}”`, "col")));
  const rows = sides.flatMap((run, side) => {
    if (!slots[side]) return [];
    const { slot, number } = slots[side];
    const row = make("tr", "");
    const who = slot.source === "mask" ? `slot ${number}, predicted by a mask` : `slot ${number}`;
    row.append(
      header(`${run.title} (${who})`, "row"),
      ...tokens.map((token) => make("td", "", chanceOf(slot, token))),
    );
    return [row];
  });
  find("thead", table).replaceChildren(head);
  find("tbody", table).replaceChildren(...rows);
}

function header(text, scope) {
  const cell = make("th", "", text);
  cell.scope = scope;
  return cell;
}

/**
 * Return the probability of a token in a slot; below the least of its candidates if it is not among them.
 */
export function chanceOf(slot, token) {
  const place = slot.candidates?.indexOf(token.id) ?? slot.top.findIndex(([text]) => text === token.text);
  const named = slot.top[place];
  if (named) return percent(named[1]);
  return slot.top.length ? `less than ${percent(slot.top.at(-1)[1])}` : "not recorded";
}
