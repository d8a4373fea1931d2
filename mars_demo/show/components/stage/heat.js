// The heat map of scores: forwards across, slots down, accepted cells outlined.

import { acceptedAt, isForced } from "../acceptance.js";
import { draw, find, findAll, make, say, set } from "../dom.js";
import { plural } from "../words.js";
import { scoreName } from "./passes.js";

const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99]; // lower bounds of the colour levels

/** @type {import("./run.js").Run | null} */
let drawn = null;
/** @type {any[]} */
let columns = []; // its forwards

export const columnOf = (number) => columns[number];

export function growHeat(run) {
  const map = find(".heat");
  if (run !== drawn) {
    [drawn, columns] = [run, []];
    map.replaceChildren();
  }
  if (!run) return;
  for (let number = columns.length; number < run.passes.length; number++) {
    columns.push(columnFor(run.passes[number], number));
    map.append(columns[number]);
  }
  const name = capital(scoreName(run));
  say(find(".whole h3"), `${name}, all forwards`);
  set(map, {
    viewBox: `0 0 ${Math.max(run.passes.length, 10)} ${run.slots}`,
    "aria-label": `${name} of ${plural(run.passes.length, "forward")}, slots from top to bottom`,
  });
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);

function columnFor(pass, number) {
  const column = draw("g", { transform: `translate(${number} 0)`, "data-pass": number });
  pass.slots.forEach((slot, index) => {
    const level = isForced(slot) ? "forced" : LEVELS.filter((bound) => slot.score >= bound).length;
    column.append(
      draw("rect", { x: 0.05, y: index + 0.03, width: 0.9, height: 0.94, "data-level": level }),
    );
  });
  column.append(outline("accepted-cells", pass.accepted));
  return column;
}

/** Return the outline of the first cells of a column; empty where block diffusion has accepted none. */
const outline = (name, cells) =>
  draw("rect", { class: name, x: 0.03, y: 0.03, width: 0.94, height: Math.max(0, cells - 0.06) });

export function showHeatUntil(count) {
  for (const [number, column] of columns.entries()) column.classList.toggle("future", number >= count);
}

/** Outline what each forward would have accepted at another τ; null removes the outlines. */
export function drawHeatAt(tau) {
  for (const old of findAll(".heat .ghost-cells")) old.remove();
  if (tau === null || !drawn) return;
  drawn.passes.forEach((pass, number) => {
    const accepted = acceptedAt(pass, tau);
    if (accepted !== pass.accepted) columns[number].append(outline("ghost-cells", accepted));
  });
}

/** Return the entry of the legend for a level of colour. */
function makeKey(text, level) {
  const [entry, key] = [make("span", ""), make("i", "key")];
  key.dataset.level = level;
  entry.append(key, text);
  return entry;
}

export function drawHeatLegend() {
  const labels = ["< 0.5", ...LEVELS.map((bound) => `≥ ${bound}`), "accepted"];
  find(".heat-legend").append(...labels.map(makeKey));
  find(".heat-legend > :last-child i").classList.add("outlined");
}
