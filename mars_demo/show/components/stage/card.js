// The card of a token: its source and its alternatives.

import { fillBar, find, make, makeBar, say } from "../dom.js";
import { percent, visible } from "../words.js";
import { isForced } from "../acceptance.js";
import { candidate, scoreName, scoreText, slotNumber, sourceText } from "./passes.js";

export function showCard(token, run, { pass: number, slot }, pinned) {
  const card = find(".card");
  say(find(".where", card), whereOf(run, run.passes[number], slot));
  const source = sourceText(run.passes[number].slots[slot]);
  say(find(".source", card), source);
  find(".source", card).hidden = !source;
  find(".alternatives", card).replaceChildren(...run.passes[number].slots[slot].top.map(alternative));
  find(".pinned-hint", card).hidden = !pinned;
  card.classList.toggle("pinned", pinned);
  card.id ||= `card-${Math.random().toString(36).slice(2)}`;
  token.setAttribute("aria-describedby", card.id);
  card.hidden = false;
  placeAt(card, token);
}

export function hideCard() {
  find(".card").hidden = true;
}

export function whereOf(run, pass, slot) {
  const text = `“${candidate(pass, slot)}”`;
  if (isForced(pass.slots[slot])) return `Forward ${pass.pass}: ${text}, forced by the grammar`;
  return (
    `Forward ${pass.pass}, slot ${slotNumber(pass, slot)}: ${text}, ` +
    `${scoreName(run)} ${scoreText(run, pass.slots[slot].score)}`
  );
}

/** Return the row of a candidate. */
export function alternative([text, probability]) {
  const row = make("li", "");
  const bar = makeBar();
  fillBar(bar, probability);
  row.append(make("span", "candidate", visible(text) || "…"), bar, make("span", "", percent(probability)));
  return row;
}

/** Place the card below the token, or above it if there is no room. */
function placeAt(card, token) {
  const stage = find(".stage").getBoundingClientRect();
  const box = token.getBoundingClientRect();
  const left = Math.min(box.left - stage.left, stage.width - card.offsetWidth);
  const below = box.bottom + 8;
  const top =
    below + card.offsetHeight < innerHeight ? below : Math.max(8, box.top - card.offsetHeight - 8);
  card.style.left = `${Math.max(0, left)}px`;
  card.style.top = `${top - stage.top}px`;
}
