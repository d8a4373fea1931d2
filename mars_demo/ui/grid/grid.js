// Draws a layout: runs of seen cells per row as rectangles, names of tokens where they fit, regions by name.

const UNIT = 10; // of the picture's own coordinates, per cell
const LABELS = 44; // cells up to which every row and column has its name

let picture = null;
let here = null; // {row, column}

const kindOf = (row, column) => {
  const isMask = (cell) => ["noisy", "mask", "group"].includes(cell.stream);
  return isMask(row) ? (isMask(column) ? "noisy" : "cross") : "clean";
};

function render() {
  const svg = find(".matrix");
  svg.replaceChildren();
  say(find(".told"), picture ? "Point at a cell, or move with the arrow keys." : "");
  say(find(".caption"), picture?.caption ?? "");
  find(".reads").hidden = true;
  find(".regions").replaceChildren();
  here = null;
  if (!picture) return;
  const { rows, columns } = picture;
  const [width, height] = [columns.length * UNIT, rows.length * UNIT];
  svg.setAttribute("viewBox", extent().join(" "));
  svg.setAttribute("aria-label", `${rows.length} rows, ${columns.length} columns`);
  svg.append(draw("rect", { class: "frame", x: 0, y: 0, width, height, "stroke-width": 0.6 }));
  picture.visible.forEach((cells, row) => drawRow(svg, cells, row));
  if (hasNames()) {
    for (let row = 1; row < rows.length; row++) svg.append(gridLine(0, row * UNIT, width, row * UNIT));
    for (let column = 1; column < columns.length; column++) svg.append(gridLine(column * UNIT, 0, column * UNIT, height));
    rows.forEach((cell, row) => svg.append(name(cell, -3, (row + 0.75) * UNIT, "end")));
    columns.forEach((cell, column) => {
      const label = name(cell, 0, 0, "start");
      label.setAttribute("transform", `translate(${(column + 0.75) * UNIT} -3) rotate(-90)`);
      svg.append(label);
    });
  }
  for (const region of picture.regions) svg.append(draw("rect", { class: "frame", ...boxOf(region), "stroke-width": 1.2 }));
  svg.append(draw("g", { class: "names" }), draw("rect", { class: "lit row" }), draw("rect", { class: "lit column" }), draw("rect", { class: "here", "stroke-width": 1.2 }));
  nameRegions();
  listRegions();
}

const hasNames = () => Math.max(picture.rows.length, picture.columns.length) <= LABELS;

/** The picture's x, y, width and height without the names of bands beneath it. */
function extent() {
  const longest = Math.max(...[...picture.rows, ...picture.columns].map((cell) => shortened(cell.label).length));
  const gutter = hasNames() ? 8 + 4.3 * longest : 14;
  return [-gutter, -gutter, picture.columns.length * UNIT + gutter + 2, picture.rows.length * UNIT + gutter + 2];
}

function drawRow(svg, cells, row) {
  for (let start = 0; start < cells.length; ) {
    if (cells[start] === "0") {
      start++;
      continue;
    }
    const kind = kindOf(picture.rows[row], picture.columns[start]);
    let end = start;
    while (cells[end] === "1" && kindOf(picture.rows[row], picture.columns[end]) === kind) end++;
    if (picture.weights) {
      for (let column = start; column < end; column++)
        svg.append(draw("rect", { "data-cells": kind, x: column * UNIT, y: row * UNIT, width: UNIT, height: UNIT, "fill-opacity": Math.sqrt(picture.weights[row][column]) }));
    } else svg.append(draw("rect", { "data-cells": kind, x: start * UNIT, y: row * UNIT, width: (end - start) * UNIT, height: UNIT }));
    start = end;
  }
}

const gridLine = (x1, y1, x2, y2) => draw("line", { class: "line", x1, y1, x2, y2, "stroke-width": 0.8 });

function name(cell, x, y, anchor) {
  const text = draw("text", { x, y, "text-anchor": anchor, "font-size": 7 });
  text.textContent = shortened(cell.label);
  return text;
}
const shortened = (label) => visible(label).slice(0, 14);

const boxOf = ({ rows, columns }) => ({
  x: columns[0] * UNIT,
  y: rows[0] * UNIT,
  width: (columns[1] - columns[0]) * UNIT,
  height: (rows[1] - rows[0]) * UNIT,
});

const isBand = ({ rows, columns }) => rows[1] - rows[0] === picture.rows.length && columns[1] - columns[0] < picture.columns.length;

/** The names of regions, all outside of the cells. A band of columns has its name and a bracket beneath it, in the
 *  size of the page's own text or larger, whatever the picture's scale. */
function nameRegions() {
  const [svg, names] = [find(".matrix"), find(".matrix .names")];
  if (!names || !svg.clientWidth) return; // hidden: called again as soon as it has a width
  names.replaceChildren();
  const [x, y, across, down] = extent();
  svg.setAttribute("viewBox", [x, y, across, down].join(" "));
  const em = parseFloat(getComputedStyle(svg).fontSize) / svg.getScreenCTM().a;
  const room = nameBeneath(names, picture.regions.filter(isBand), Math.max(em, 7));
  svg.setAttribute("viewBox", [x, y, across, down + room].join(" "));
}

/** Any other region is listed below the picture, beside a small map of where it is. */
function listRegions() {
  const entries = picture.regions.filter((region) => !isBand(region)).map((region) => {
    const entry = make("li", "region");
    entry.append(mapOf(region), make("span", "", region.text));
    return entry;
  });
  find(".regions").replaceChildren(...entries);
}

function mapOf(region) {
  const [width, height] = [picture.columns.length * UNIT, picture.rows.length * UNIT];
  const map = draw("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  map.append(draw("rect", { class: "ground", width, height }), draw("rect", { class: "place", ...boxOf(region) }));
  return map;
}

/** A bracket under each band and its name in the first line that has room for it. Returns the room they take. */
function nameBeneath(names, bands, size) {
  const [left, , across] = extent();
  const bottom = picture.rows.length * UNIT;
  const taken = []; // of each line, how far to the right
  for (const band of bands) {
    const { x, width } = boxOf(band);
    const label = draw("text", { class: "region", "text-anchor": "middle", "font-size": size, "stroke-width": size / 5 });
    label.textContent = band.text;
    names.append(label);
    const half = label.getComputedTextLength() / 2;
    const middle = Math.min(Math.max(x + width / 2, left + half), left + across - half);
    const free = taken.findIndex((end) => end + size / 2 < middle - half);
    const line = free < 0 ? taken.length : free;
    for (let above = 0; above < line; above++) taken[above] = Math.max(taken[above], x + width / 2);
    taken[line] = middle + half;
    label.setAttribute("x", middle);
    label.setAttribute("y", bottom + (1.4 * line + 1.5) * size);
    const corners = `M${x + size / 10} ${bottom + size / 5}v${size / 5}h${width - size / 5}v${-size / 5}`;
    const stem = `M${x + width / 2} ${bottom + 0.4 * size}V${bottom + (1.4 * line + 0.6) * size}`;
    names.prepend(draw("path", { class: "bracket", d: corners + stem, "stroke-width": size / 10 })); // under the names
  }
  return taken.length * 1.5 * size;
}

// ------------------------------------------------------------------------------------- in words

const standing = {
  clean: (cell) => `clean “${visible(cell.label)}” at ${cell.position}`,
  noisy: (cell) => `noisy position ${cell.position} (block ${cell.block})`,
  cached: (cell) => `cached “${visible(cell.label)}” at ${cell.position}`,
  new: (cell) => `“${visible(cell.label)}” at ${cell.position}`,
  draft: (cell) => `draft “${visible(cell.label)}” at ${cell.position}`,
  mask: (cell) => `the mask at ${cell.position}`,
  group: (cell) => `the mask at ${cell.position} of group ${cell.block}`,
};
const words = (cell) => standing[cell.stream](cell);

/** Why a row sees a column, or why not. */
function because(row, column, seen) {
  if (row === column) return "every position sees itself";
  const later = column.position > row.position;
  if (row.stream === "clean") {
    if (column.stream === "noisy") return "the clean stream never sees the noisy one";
    if (seen) return later ? "both are in one block, which is seen from both sides" : "it comes before it";
    return "it comes later";
  }
  if (row.stream === "noisy") {
    if (column.stream === "clean") return seen ? `it comes before block ${row.block}` : `it is in block ${row.block} or after it: that is what has to be predicted`;
    if (row.block !== column.block) return `it is in block ${column.block}, and blocks do not see each other`;
    return seen ? (later ? "blocks are seen from both sides" : "it is in the same block and not later") : "it comes later in the block";
  }
  if (column.stream === "cached") return "all that is in the cache was accepted";
  if (row.stream === "group") {
    if (column.stream === "group" && column.block !== row.block) return "groups do not see each other: each goes on after another number of drafts";
    if (column.stream === "draft") return seen ? `group ${row.block} supposes that the first ${plural(row.block, "draft")} hold` : `group ${row.block} supposes that only ${plural(row.block, "draft")} hold`;
  }
  return seen ? "it comes before it" : column.stream === "group" ? "masks come after it" : "it comes later";
}

function tell({ row, column }) {
  const [query, key] = [picture.rows[row], picture.columns[column]];
  const seen = picture.visible[row][column] === "1";
  const what = words(query);
  let sentence = `${what[0].toUpperCase()}${what.slice(1)} ${seen ? "sees" : "does not see"} ${query === key ? "itself" : words(key)}: ${because(query, key, seen)}.`;
  if (picture.weights && seen) sentence += ` Attention ${picture.weights[row][column].toFixed(3)}.`;
  if (query.target !== null && query.target !== undefined)
    sentence += ` It learns to predict “${visible(query.target)}”, ${plural(query.offset, "token")} after the last real one it sees.`;
  return sentence;
}

function pointAt(row, column) {
  row = Math.max(0, Math.min(picture.rows.length - 1, row));
  column = Math.max(0, Math.min(picture.columns.length - 1, column));
  here = { row, column };
  const place = (selector, x, y, width, height) => {
    for (const [key, value] of Object.entries({ x, y, width, height })) find(selector).setAttribute(key, value);
  };
  place(".lit.row", 0, row * UNIT, picture.columns.length * UNIT, UNIT);
  place(".lit.column", column * UNIT, 0, UNIT, picture.rows.length * UNIT);
  place(".here", column * UNIT, row * UNIT, UNIT, UNIT);
  say(find(".told"), tell(here));
}

/** All that a row sees, as text; the rest greyed. */
function read(row) {
  const box = find(".reads");
  box.hidden = false;
  box.replaceChildren(make("b", "", `${words(picture.rows[row])} reads: `));
  picture.columns.forEach((cell, column) => {
    const own = picture.columns[column] === picture.rows[row];
    const text = cell.label === "MASK" ? " ▢" : cell.label;
    box.append(make(own ? "b" : "span", picture.visible[row][column] === "1" ? "" : "unseen", text));
  });
}

// ---------------------------------------------------------------------------------------- events

function cellAt(event) {
  const svg = find(".matrix");
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const [row, column] = [Math.floor(point.y / UNIT), Math.floor(point.x / UNIT)];
  const inside = row >= 0 && column >= 0 && row < picture.rows.length && column < picture.columns.length;
  return inside ? { row, column } : null;
}

find(".matrix").addEventListener("pointermove", (event) => {
  const cell = picture && cellAt(event);
  if (cell && (cell.row !== here?.row || cell.column !== here?.column)) pointAt(cell.row, cell.column);
});
find(".matrix").addEventListener("click", (event) => {
  const cell = picture && cellAt(event);
  if (!cell) return;
  pointAt(cell.row, cell.column);
  read(cell.row);
});
find(".plot").addEventListener("keydown", (event) => {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!picture) return;
  if (event.key in moves) {
    const [down, right] = moves[event.key];
    pointAt((here?.row ?? -down) + down, (here?.column ?? -right) + right);
  } else if (event.key === "Enter" && here) read(here.row);
  else return;
  event.preventDefault();
  event.stopPropagation();
});

/** A copy of a drawing with its colours written into it. */
function styled(original) {
  const copy = original.cloneNode(true);
  const shapes = [original, ...original.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((shape, index) => {
    const style = getComputedStyle(shapes[index]);
    for (const property of ["fill", "fill-opacity", "stroke", "font-family", "paint-order"]) shape.style.setProperty(property, style.getPropertyValue(property));
    shape.removeAttribute("class");
  });
  return copy;
}

/** The picture with the names of its regions. */
function exported() {
  const copy = styled(find(".matrix"));
  const [left, top, across, down] = find(".matrix").getAttribute("viewBox").split(" ").map(Number);
  const entries = findAll(".regions .region");
  const size = Math.min(8, across / 0.7 / Math.max(1, ...entries.map((entry) => entry.textContent.length)));
  entries.forEach((entry, index) => {
    const y = top + down + (1.6 * index + 0.5) * size;
    const map = styled(find("svg", entry));
    for (const [key, value] of Object.entries({ x: left, y, width: 2 * size, height: 1.2 * size })) map.setAttribute(key, value);
    const text = draw("text", { x: left + 2.5 * size, y: y + size, "font-size": size });
    text.style.fill = getComputedStyle(entry).color;
    text.style.fontFamily = getComputedStyle(entry).fontFamily;
    text.textContent = entry.textContent;
    copy.append(map, text);
  });
  const height = down + 1.6 * size * entries.length;
  const sizes = { xmlns: "http://www.w3.org/2000/svg", viewBox: [left, top, across, height].join(" "), width: 4 * across, height: 4 * height };
  for (const [key, value] of Object.entries(sizes)) copy.setAttribute(key, value);
  const ground = draw("rect", { x: -100, y: -100, width: "200%", height: "200%" });
  ground.style.fill = getComputedStyle(document.body).backgroundColor;
  copy.prepend(ground);
  return new XMLSerializer().serializeToString(copy);
}

element.addEventListener("click", async ({ target }) => {
  const kind = target.dataset?.do;
  if (!kind || !picture) return;
  const file = kind === "svg" ? new Blob([exported()], { type: "image/svg+xml" }) : await rasterize(exported(), 1);
  download(`mask-${picture.kind}.${kind}`, file);
});

function update() {
  const value = props.value ? JSON.parse(props.value) : null;
  if (value?.trouble) return say(find(".told"), value.trouble); // the picture before it stays
  picture = value;
  if (picture) picture.columns = picture.columns.map((cell) => picture.rows.find((row) => same(row, cell)) ?? cell);
  render();
}
const same = (a, b) => a.stream === b.stream && a.position === b.position && a.block === b.block;

new ResizeObserver(nameRegions).observe(find(".plot"));
watch("value", update);
update();
