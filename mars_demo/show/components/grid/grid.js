// The grid: draws a layout, and describes its cells, rows and regions.
//
// `props.value` is a `Mask` of ui/masks.py as JSON: rows are queries, columns are keys, filled cells
// are visible.

import { props, watch } from "../component.js";
import { draw, find, make, say, set } from "../dom.js";
import { UNIT, boxOf, grid, size } from "./layout.js";
import { drawMatrix } from "./matrix.js";
import { describe } from "./reasons.js";

function render() {
  const { picture } = grid;
  find(".matrix").replaceChildren();
  say(find(".sentence"), picture ? "Point at a cell, or move with the arrow keys." : "");
  say(find(".caption"), picture?.caption ?? "");
  find(".regions").replaceChildren();
  grid.here = null;
  if (!picture) return;
  drawMatrix();
  find(".regions").replaceChildren(...picture.regions.map(entryOf));
}

/** Return the name of a region with a small map of its place. */
function entryOf(region) {
  const [width, height] = size();
  const map = draw("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  map.append(
    draw("rect", { class: "ground", width, height }),
    draw("rect", { class: "place", ...boxOf(region) }),
  );
  const entry = make("li", "region");
  entry.append(map, make("span", "", region.text));
  return entry;
}

function pointAt(row, column) {
  const { rows, columns } = grid.picture;
  row = Math.max(0, Math.min(rows.length - 1, row));
  column = Math.max(0, Math.min(columns.length - 1, column));
  grid.here = { row, column };
  const [width, height] = size();
  set(find(".lit.row"), { x: 0, y: row * UNIT, width, height: UNIT });
  set(find(".lit.column"), { x: column * UNIT, y: 0, width: UNIT, height });
  const isVisible = grid.picture.visible[row][column] === "1";
  set(find(".here"), {
    x: column * UNIT,
    y: row * UNIT,
    width: UNIT,
    height: UNIT,
    "data-seen": isVisible,
  });
  say(find(".sentence"), describe(grid.picture, grid.here));
}

// ---------------------------------------------------------------------------------------- events

function cellAt({ clientX, clientY }) {
  const point = new DOMPoint(clientX, clientY).matrixTransform(find(".matrix").getScreenCTM().inverse());
  const [row, column] = [Math.floor(point.y / UNIT), Math.floor(point.x / UNIT)];
  const inside =
    row >= 0 && column >= 0 && row < grid.picture.rows.length && column < grid.picture.columns.length;
  return inside ? { row, column } : null;
}

function point(event) {
  const cell = grid.picture && cellAt(event);
  if (cell && (cell.row !== grid.here?.row || cell.column !== grid.here?.column))
    pointAt(cell.row, cell.column);
}
find(".matrix").addEventListener("pointermove", point);
find(".matrix").addEventListener("click", point); // a tap moves nothing

const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

find(".plot").addEventListener("keydown", (event) => {
  const { picture, here } = grid;
  if (!picture || !(event.key in MOVES)) return;
  const [down, right] = MOVES[event.key];
  pointAt((here?.row ?? -down) + down, (here?.column ?? -right) + right);
  event.preventDefault();
  event.stopPropagation();
});

// --------------------------------------------------------------------------------------- the value

const same = (a, b) => a.stream === b.stream && a.position === b.position && a.block === b.block;

function update() {
  const value = props.value ? JSON.parse(props.value) : null;
  if (value?.error) return say(find(".sentence"), value.error); // keeps the previous picture
  grid.picture = value;
  if (value) value.columns = value.columns.map((cell) => value.rows.find((row) => same(row, cell)) ?? cell);
  render();
}

watch("value", update);
update();
