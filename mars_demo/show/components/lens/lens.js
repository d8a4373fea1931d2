// The lens: a table of layers by slots, with descriptions of its cells.
//
// `props.value` is the JSON of `forwards.lens_of`, or {error: sentence}; empty hides the table.

import { props, watch } from "../component.js";
import { find, findAll, make, makeKey, say, set } from "../dom.js";
import { percent, visible } from "../words.js";

const BOUNDS = [0.01, 0.1, 0.5, 0.9, 0.99]; // lower bounds of the colour levels
const HINT = "Point at a cell, or move with the arrow keys.";

/** @type {any} */
let lens = null;

const quoted = (label) => `“${visible(label)}”`;
const whole = (p) => `${Math.floor(100 * p + 1e-9)}%`;
const levelOf = (p) => BOUNDS.filter((bound) => p >= bound).length;
const nameOf = (layer) => {
  if (layer === 0) return "The input, layer 0";
  return layer === lens.layers.length - 1 ? `The last layer, ${layer}` : `Layer ${layer}`;
};

// ---------------------------------------------------------------------------------------- the table

function heading(name, textOf) {
  const row = make("tr", "");
  const corner = set(make("th", "name", name), { scope: "row" });
  row.append(corner, ...lens.slots.map((slot, index) => make("td", "head", textOf(slot, index))));
  return row;
}

const headings = () => [
  heading("Slot", (_, index) => `${index + 1}${index < (lens.accepted ?? 0) ? " ✓" : ""}`),
  heading("Predicted from", ({ at }) => at),
  heading("Output", ({ label }) => visible(label)),
  heading("Settled from layer", ({ settled }) => `${settled ?? "–"}`),
];

function rowOf(cells, layer) {
  const row = make("tr", "");
  const last = layer === lens.layers.length - 1;
  const name = layer === 0 ? "0 input" : last ? `${layer} output` : String(layer);
  row.append(
    set(make("th", "name", name), { scope: "row" }),
    ...cells.map((cell, slot) => cellOf(cell, layer, slot)),
  );
  return row;
}

function cellOf([label, , probability], layer, slot) {
  const cell = set(make("td", "cell"), { role: "gridcell", tabindex: -1 });
  Object.assign(cell.dataset, { layer, slot, level: levelOf(probability) });
  if (lens.slots[slot].settled === layer) cell.classList.add("settles");
  cell.append(make("span", "said", visible(label)), make("span", "share", whole(probability)));
  return cell;
}

// ---------------------------------------------------------------------------------------- in words

function words(layer, slot) {
  const [label, probability, outputProbability, rank] = lens.layers[layer][slot];
  const { label: output, settled } = lens.slots[slot];
  const top = `${quoted(label)} (${percent(probability)})`;
  const start = `${nameOf(layer)}, slot ${slot + 1}: the lens predicts ${top}`;
  if (rank > 1)
    return `${start}. The output ${quoted(output)} has ${percent(outputProbability)} and rank ${rank}.`;
  return `${start}, the output${settled === layer ? ". It stays so up to the last layer" : ""}.`;
}

function describe(cell) {
  const { layer, slot } = cell.dataset;
  for (const other of findAll(".cell[tabindex='0']")) other.tabIndex = -1;
  cell.tabIndex = 0;
  say(find(".sentence"), words(Number(layer), Number(slot)));
}

// ---------------------------------------------------------------------------------------- events

const MOVES = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const cellFrom = ({ target }) => target.closest?.(".cell");

find("tbody").addEventListener("pointerover", (event) => cellFrom(event) && describe(cellFrom(event)));
find("tbody").addEventListener("focusin", (event) => cellFrom(event) && describe(cellFrom(event)));
find("tbody").addEventListener("click", (event) => cellFrom(event)?.focus());
find("tbody").addEventListener("keydown", (event) => {
  const cell = cellFrom(event);
  if (!cell || !(event.key in MOVES)) return;
  const [up, right] = MOVES[event.key];
  const [layer, slot] = [Number(cell.dataset.layer) + up, Number(cell.dataset.slot) + right];
  find(`.cell[data-layer="${layer}"][data-slot="${slot}"]`)?.focus();
  event.preventDefault();
  event.stopPropagation();
});

// ---------------------------------------------------------------------------------------- the value

function drawLegend() {
  const steps = ["< 1%", ...BOUNDS.map((bound) => `≥ ${100 * bound}%`)].map(makeKey);
  const marks = ["◆ from here on, the output is the most probable token", "✓ accepted"];
  find(".legend").append(...steps, ...marks.map((text) => make("span", "", text)));
}

function render() {
  const { layers, caption } = lens;
  say(find(".caption"), caption);
  say(find(".sentence"), HINT);
  find("thead").replaceChildren(...headings());
  find("tbody").replaceChildren(...layers.map(rowOf).reverse());
  find(".cell").tabIndex = 0;
}

function update() {
  const value = props.value ? JSON.parse(props.value) : null;
  find(".lens").hidden = !value;
  for (const part of findAll(".caption, .scroll, .legend, .about")) part.hidden = Boolean(value?.error);
  if (value?.error) return say(find(".sentence"), value.error);
  lens = value;
  if (lens) render();
}

drawLegend();
watch("value", update);
update();
