// The chart: accuracy against speed, with an interval around each point.

import { constants } from "../component.js";
import { draw, find, make, say, set } from "../dom.js";
import { axes, pointInWords, series, titleOf } from "./results.js";
import { extent, placeLabels, ticks } from "./scales.js";

const SHAPES = ["circle", "square", "diamond", "triangle", "cross"];
const NARROW = 520; // px, the width below which the chart is taller
const SPANS = { accuracy: 0.1, tokens_per_forward: 0.5, answers_per_second: 0.1 };

const byAr = ({ mode }) => (mode === "ar" ? "ring" : null);

/**
 * Draw points on the axis `across`; `chosen` is one of them. Return their nodes in the order of the lines.
 */
export function drawChart(shown, across, chosen, paper) {
  const svg = find("svg");
  svg.replaceChildren();
  svg.toggleAttribute("hidden", !shown.length);
  find(".legend").replaceChildren();
  if (!shown.length) return [];
  const overlay = paper && across === "tokens_per_forward" ? constants.paper : [];
  const frame = new Frame(svg, shown, across, overlay);
  svg.append(...frame.axes());
  drawPaper(svg, frame, overlay);
  const lines = series(shown);
  const nodes = lines.flatMap(([name, line], index) =>
    drawLine(svg, frame, line, { name, index, across, chosen }),
  );
  svg.append(...labelsOf(frame, shown));
  find(".legend").replaceChildren(
    ...lines.map(([, line], index) => keyOf(line, index)),
    ...(overlay.length ? [paperKey()] : []),
  );
  set(svg, {
    "aria-label": `Accuracy against ${axes[across].title}: ${lines.length} series, ${shown.length} points`,
  });
  return nodes;
}

/** The coordinates of the drawing. */
class Frame {
  constructor(svg, points, across, overlay) {
    const { paddingLeft, paddingRight } = getComputedStyle(svg.parentElement);
    const width = Math.max(
      260,
      svg.parentElement.clientWidth - parseFloat(paddingLeft) - parseFloat(paddingRight),
    );
    this.font = parseFloat(getComputedStyle(svg).fontSize);
    const height = Math.round(
      Math.min(30 * this.font, Math.max(width < NARROW ? 0.85 * width : 0.46 * width, 17 * this.font)),
    );
    const wide = (name) => points.flatMap((point) => point[name]);
    const over = overlay.flatMap(({ points: line }) => line);
    this.across = across;
    this.x = extent([...wide(across), ...over.map((point) => point[across])], SPANS[across], 0, Infinity);
    this.y = extent([...wide("accuracy"), ...over.map(({ accuracy }) => accuracy)], SPANS.accuracy, 0, 1);
    this.box = {
      x: 3.6 * this.font,
      y: 1.9 * this.font,
      width: width - 4.6 * this.font,
      height: height - 5 * this.font,
    };
    this.radius = Math.max(5, 0.36 * this.font);
    set(svg, { viewBox: `0 0 ${width} ${height}` });
    svg.style.height = `${height}px`;
  }

  left = (value) => this.box.x + ((value - this.x[0]) / (this.x[1] - this.x[0])) * this.box.width;
  top = (value) => this.box.y + (1 - (value - this.y[0]) / (this.y[1] - this.y[0])) * this.box.height;
  at = (point) => [this.left([point[this.across]].flat()[0]), this.top([point.accuracy].flat()[0])];

  axes() {
    const { box, font } = this;
    const below = box.y + box.height;
    const across = ticks(...this.x, Math.max(2, Math.round(box.width / (6 * font))));
    const up = ticks(...this.y, Math.max(2, Math.round(box.height / (3 * font))));
    return [
      ...up.map((value) =>
        draw("line", {
          class: "grid-line",
          x1: box.x,
          x2: box.x + box.width,
          y1: this.top(value),
          y2: this.top(value),
        }),
      ),
      draw("line", { class: "axis-line", x1: box.x, x2: box.x + box.width, y1: below, y2: below }),
      ...across.map((value) =>
        draw("line", {
          class: "axis-line",
          x1: this.left(value),
          x2: this.left(value),
          y1: below,
          y2: below + 0.35 * font,
        }),
      ),
      ...across.map((value) => write(this.left(value), below + 1.4 * font, short(value), "middle")),
      ...up.map((value) =>
        write(box.x - 0.5 * font, this.top(value) + 0.35 * font, `${short(100 * value)}%`, "end"),
      ),
      write(box.x + box.width / 2, below + 2.8 * font, axes[this.across].title, "middle", "axis-title"),
      write(0, 0.9 * font, "accuracy", "start", "axis-title"),
    ];
  }
}

const short = (value) => `${Number(value.toFixed(4))}`;

function write(x, y, text, anchor, name = "") {
  const label = draw("text", { x, y, "text-anchor": anchor, class: name });
  label.textContent = text;
  return label;
}

// ------------------------------------------------------------------------------------ the points

function drawLine(svg, frame, line, { name, index, across, chosen }) {
  const group = draw("g", { class: "series", "data-series": index % SHAPES.length, "data-name": name });
  const path = line.map((point) => frame.at(point).join(" ")).join("L");
  if (line.length > 1) group.append(draw("path", { class: "line", d: `M${path}` }));
  group.append(...line.flatMap((point) => interval(frame, point, across)));
  const nodes = line.map((point) => nodeOf(frame, point, index, across, point === chosen));
  group.append(...nodes.map(({ node }) => node));
  svg.append(group);
  return nodes;
}

/** Draw the intervals of a point, vertical and horizontal. */
function interval(frame, point, across) {
  const [x, y] = frame.at(point);
  const [, left, right] = point[across].map(frame.left);
  const [, low, high] = point.accuracy.map(frame.top);
  const cap = frame.radius / 2;
  const up = `M${x} ${low}V${high}M${x - cap} ${low}h${2 * cap}M${x - cap} ${high}h${2 * cap}`;
  const aside = `M${left} ${y}H${right}M${left} ${y - cap}v${2 * cap}M${right} ${y - cap}v${2 * cap}`;
  return [draw("path", { class: "interval", d: left === right ? up : up + aside })];
}

function nodeOf(frame, point, index, across, chosen) {
  const [x, y] = frame.at(point);
  const node = draw("g", {
    class: "point",
    role: "button",
    transform: `translate(${x} ${y})`,
    "aria-pressed": chosen,
  });
  set(node, { "aria-label": pointInWords(point, across), tabindex: -1 });
  node.append(draw("circle", { class: "reach", r: Math.max(14, 2 * frame.radius) }));
  if (chosen) node.append(draw("circle", { class: "around", r: 1.9 * frame.radius }));
  node.append(shape(byAr(point) ?? SHAPES[index % SHAPES.length], frame.radius));
  return { node, point };
}

/** Return a mark; all shapes have about the same area. */
function shape(name, radius) {
  const [r, s, d] = [radius, 0.9 * radius, 1.25 * radius];
  if (name === "circle") return draw("circle", { class: "mark", r });
  if (name === "ring") return draw("circle", { class: "mark ring", r: 1.3 * r });
  const forms = {
    square: `M${-s} ${-s}H${s}V${s}H${-s}Z`,
    diamond: `M0 ${-d}L${d} 0L0 ${d}L${-d} 0Z`,
    triangle: `M0 ${-d}L${d} ${s}H${-d}Z`,
    cross: `M${-s} ${-s}L${s} ${s}M${-s} ${s}L${s} ${-s}`,
  };
  return draw("path", { class: `mark ${name}`, d: forms[name] });
}

/** Return the labels with room: the τ of a point, or its mode. */
function labelsOf(frame, points) {
  const marks = points.map((point) => {
    const [x, y] = frame.at(point);
    return { x: x - frame.radius, y: y - frame.radius, width: 2 * frame.radius, height: 2 * frame.radius };
  });
  const size = 0.85 * frame.font;
  const labels = points.map((point) => {
    const text =
      point.tau === null
        ? (titleOf(point).split(",")[point.mode === "ar" ? 0 : 1]?.trim() ?? titleOf(point))
        : `τ ${point.tau}`;
    const [x, y] = frame.at(point);
    return { text, x, y, width: 0.56 * size * text.length, height: 1.15 * size };
  });
  const places = placeLabels(labels, marks, {
    ...frame.box,
    x: frame.box.x,
    width: frame.box.width + frame.font,
  });
  return labels.flatMap(({ text, height }, index) => {
    const box = places[index];
    return box ? [write(box.x, box.y + 0.8 * height, text, "start", "label")] : [];
  });
}

/** Return the legend entry of a series, with its number of prompts. */
function keyOf(line, index) {
  const item = make("li", "");
  const svg = draw("svg", {
    viewBox: "-16 -8 32 16",
    width: 32,
    height: 16,
    class: "series",
    "data-series": index % SHAPES.length,
  });
  if (line.length > 1) svg.append(draw("path", { class: "line", d: "M-16 0H16" }));
  svg.append(shape(byAr(line[0]) ?? SHAPES[index % SHAPES.length], 5));
  const sizes = [...new Set(line.map(({ n }) => n))];
  item.append(svg, make("span", "", `${titleOf(line[0])}, n = ${sizes.sort((a, b) => a - b).join("–")}`));
  return item;
}

// ------------------------------------------------------------------------------------- the paper

function drawPaper(svg, frame, lines) {
  for (const { name, points } of lines) {
    const group = draw("g", { class: "paper-line" });
    const places = points.map(frame.at);
    group.append(
      draw("path", { class: "line", d: `M${places.map((place) => place.join(" ")).join("L")}` }),
    );
    group.append(
      ...places.map(([cx, cy]) => draw("circle", { class: "mark", cx, cy, r: 0.7 * frame.radius })),
    );
    const [x, y] = places.at(-1);
    if (name) group.append(write(x + 0.6 * frame.font, y + 0.3 * frame.font, name, "start", "label"));
    svg.append(group);
  }
}

function paperKey() {
  const item = make("li", "");
  const svg = draw("svg", { viewBox: "-16 -8 32 16", width: 32, height: 16, class: "paper-line" });
  svg.append(draw("path", { class: "line", d: "M-16 0H16" }), draw("circle", { class: "mark", r: 4 }));
  item.append(svg, make("span", "", "the paper, Tables 3 and 4"));
  return item;
}

const COMPARABLE =
  "The paper's Table 4 (τ = 0.95), each line starting from the same model at τ = 1 (Table 3): " +
  "0.5B and 7B with B = 4, 8 and 16, averaged over six benchmarks. The models and tasks differ from ours: " +
  "compare slopes, not heights.";
const NO_TIMES = "The paper's Table 4 has no times; its overlay needs tokens per forward.";

export function drawPaperWords(on, across) {
  const line = find(".paper-words");
  line.hidden = !on;
  say(line, across === "tokens_per_forward" ? COMPARABLE : NO_TIMES);
}
