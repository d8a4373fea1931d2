// The matrix: rectangles of visible cells per row, and names of tokens where they fit.

import { draw, find, set } from "../dom.js";
import { TYPE, UNIT, boxOf, extent, grid, hasNames, shortened, size } from "./layout.js";

export function drawMatrix() {
  const { rows, columns, visible, regions } = grid.picture;
  const [width, height] = size();
  const svg = find(".matrix");
  const [, , wide, high] = extent();
  const plot = find(".plot");
  plot.classList.toggle("named", hasNames());
  plot.style.setProperty("--wide", String(wide / TYPE));
  plot.style.setProperty("--high", String(high / TYPE));
  set(svg, { viewBox: extent().join(" "), "aria-label": `${rows.length} rows, ${columns.length} columns` });
  svg.append(draw("rect", { class: "frame", x: 0, y: 0, width, height, "stroke-width": 0.6 }));
  for (const [row, cells] of visible.entries()) drawRow(svg, cells, row);
  if (hasNames()) svg.append(...lines(width, height), ...names());
  for (const region of regions)
    svg.append(draw("rect", { class: "frame", ...boxOf(region), "stroke-width": 1.2 }));
  svg.append(
    draw("rect", { class: "lit row" }),
    draw("rect", { class: "lit column" }),
    draw("rect", { class: "here", "stroke-width": 1.2 }),
  );
}

const isMask = (cell) => ["noisy", "mask", "group"].includes(cell.stream);
const kindOf = (row, column) => (isMask(row) ? (isMask(column) ? "noisy" : "cross") : "clean");

/** Draw one rectangle for adjacent cells of a kind. */
function drawRow(svg, cells, row) {
  const { rows, columns } = grid.picture;
  const kind = (column) => (cells[column] === "1" ? kindOf(rows[row], columns[column]) : null);
  for (let start = 0, end; start < cells.length; start = end) {
    end = start + 1;
    if (!kind(start)) continue;
    while (kind(end) === kind(start)) end++;
    const place = { x: start * UNIT, y: row * UNIT, width: (end - start) * UNIT, height: UNIT };
    svg.append(draw("rect", { "data-cells": kind(start), ...place }));
  }
}

function lines(width, height) {
  const line = (x1, y1, x2, y2) => draw("line", { class: "line", x1, y1, x2, y2, "stroke-width": 0.8 });
  const { rows, columns } = grid.picture;
  return [
    ...rows.slice(1).map((_, row) => line(0, (row + 1) * UNIT, width, (row + 1) * UNIT)),
    ...columns.slice(1).map((_, column) => line((column + 1) * UNIT, 0, (column + 1) * UNIT, height)),
  ];
}

/** Return the names of the rows, on the left, and of the columns, above. */
function names() {
  const name = (cell, attributes) => {
    const text = draw("text", { "font-size": TYPE, ...attributes });
    text.textContent = shortened(cell.label);
    return text;
  };
  const { rows, columns } = grid.picture;
  return [
    ...rows.map((cell, row) => name(cell, { x: -3, y: (row + 0.75) * UNIT, "text-anchor": "end" })),
    ...columns.map((cell, column) =>
      name(cell, { transform: `translate(${(column + 0.75) * UNIT} -3) rotate(-90)` }),
    ),
  ];
}
