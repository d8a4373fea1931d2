// The names of a picture's regions, outside of its cells.

import { draw, find, make } from "../dom.js";
import { boxOf, extent, grid, size } from "./layout.js";

/** Whether a region spans all rows but not all columns. */
function isBand({ rows, columns }) {
  const { picture } = grid;
  return rows[1] - rows[0] === picture.rows.length && columns[1] - columns[0] < picture.columns.length;
}

/** Name the bands of columns with brackets below them, at least in the font size of the page. */
export function nameRegions() {
  const [svg, names] = [find(".matrix"), find(".matrix .names")];
  if (!names || !svg.clientWidth) return; // hidden; called again when it has a width
  names.replaceChildren();
  const [x, y, across, down] = extent();
  svg.setAttribute("viewBox", [x, y, across, down].join(" "));
  const em = parseFloat(getComputedStyle(svg).fontSize) / svg.getScreenCTM().a;
  const room = nameBeneath(names, grid.picture.regions.filter(isBand), Math.max(em, 7));
  svg.setAttribute("viewBox", [x, y, across, down + room].join(" "));
}

/** List the other regions below the picture, each with a small map. */
export function listRegions() {
  const entries = grid.picture.regions
    .filter((region) => !isBand(region))
    .map((region) => {
      const entry = make("li", "region");
      entry.append(mapOf(region), make("span", "", region.text));
      return entry;
    });
  find(".regions").replaceChildren(...entries);
}

function mapOf(region) {
  const [width, height] = size();
  const map = draw("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  map.append(
    draw("rect", { class: "ground", width, height }),
    draw("rect", { class: "place", ...boxOf(region) }),
  );
  return map;
}

/**
 * Draw a bracket below each band, and its name in the first line with room. Return the height of all lines.
 */
function nameBeneath(names, bands, em) {
  const [left, , across] = extent();
  const [, bottom] = size();
  const taken = []; // the right end of each line
  for (const band of bands) {
    const { x, width } = boxOf(band);
    const label = draw("text", {
      class: "region",
      "text-anchor": "middle",
      "font-size": em,
      "stroke-width": em / 5,
    });
    label.textContent = band.text;
    names.append(label);
    const half = label.getComputedTextLength() / 2;
    const middle = Math.min(Math.max(x + width / 2, left + half), left + across - half);
    const free = taken.findIndex((end) => end + em / 2 < middle - half);
    const line = free < 0 ? taken.length : free;
    for (let above = 0; above < line; above++) taken[above] = Math.max(taken[above], x + width / 2);
    taken[line] = middle + half;
    label.setAttribute("x", middle);
    label.setAttribute("y", bottom + (1.4 * line + 1.5) * em);
    const corners = `M${x + em / 10} ${bottom + em / 5}v${em / 5}h${width - em / 5}v${-em / 5}`;
    const stem = `M${x + width / 2} ${bottom + 0.4 * em}V${bottom + (1.4 * line + 0.6) * em}`;
    const bracket = draw("path", { class: "bracket", d: corners + stem, "stroke-width": em / 10 });
    names.prepend(bracket); // behind the names
  }
  return taken.length * 1.5 * em;
}
