// The panel "Why this speed?": cost and acceptance of the forwards of a finished run, and where its time
// went.

import { draw, fillBar, find, make, makeBar, say, set } from "../dom.js";
import { plural } from "../words.js";
import { scaleFor } from "./lane.js";
import { estimates, reasons, times } from "./reasons.js";
import { costPoints, curveThrough, knownCosts, sizesOf, slotsOf, timesOf } from "./speed.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [290, 200, 32, 286, 26, 160];
const DIGIT = 6; // units of the drawing

let drawn = null; // the run

/** Draw the panel of a run when the race is `over`; hide it before. */
export function drawWhy(run, baseline, over) {
  const panel = find(".why");
  panel.hidden = !over || !run?.passes.length;
  if (panel.hidden) drawn = null;
  if (panel.hidden || run === drawn) return;
  drawn = run;
  say(find(".why-whose", panel), run.title);
  const points = costPoints(run, baseline);
  find(".reasons", panel).replaceChildren(
    ...reasons(run, baseline, points).map((sentence) => make("p", "", sentence)),
  );
  drawCosts(find(".cost", panel), run, baseline);
  drawRows(find(".by-slot", panel), slotRows(run));
  drawTimes(find(".times", panel), run);
  drawEstimates(find(".estimates", panel), run === baseline ? [] : estimates(run, points));
}

// -------------------------------------------------------------------------------------- c(k), a curve

/** Return the points of the curve up to the largest forward of the run. */
const pointsUpTo = (points, largest) => [
  ...points.filter(([positions]) => positions < largest),
  [largest, curveThrough(points)(largest)],
];

function drawCosts(figure, run, baseline) {
  const sizes = sizesOf(run);
  const one =
    run === baseline || !baseline ? [] : sizesOf(baseline).filter(({ positions }) => positions === 1);
  const recorded = knownCosts(run);
  figure.hidden = !sizes.length && !recorded;
  if (figure.hidden) return;
  const pointOf = ({ positions, ms }) => [positions, ms];
  const [used, single] = [sizes.map(pointOf), one.map(pointOf)];
  const curve = recorded
    ? pointsUpTo(recorded, used.at(-1)?.[0] ?? 1)
    : [...single, ...used.filter(([k]) => k > 1 || !single.length)];
  const all = [...curve, ...used, ...single];
  const [most, slowest] = [0, 1].map((axis) => Math.max(...all.map((point) => point[axis])));
  const step = scaleFor(slowest / 4);
  const top = step * Math.max(1, Math.ceil(slowest / step));
  const place = ([positions, ms]) => [
    LEFT + 10 + ((RIGHT - LEFT - 20) * (positions - 1)) / Math.max(1, most - 1),
    BOTTOM - ((BOTTOM - TOP) * ms) / top,
  ];
  const svg = find("svg", figure);
  svg.replaceChildren(
    ...axes(place, all, step, top),
    draw("polyline", {
      class: recorded ? "curve" : "curve between",
      points: curve.map((point) => place(point).join(",")).join(" "),
    }),
    ...one.map(({ ms }) => squareAt(place([1, ms]), `One token per forward: median ${ms.toFixed(1)} ms`)),
    ...used.map((point, index) => dotAt(place(point), sizeText(sizes[index]))),
    ...counts(sizes, place, one[0]?.ms ?? 0),
  );
  set(svg, { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-label": costsInWords(recorded, sizes, one) });
  find(".cost-legend", figure).replaceChildren(
    ...legendOf(recorded, one).map((words) => make("span", "", words)),
  );
}

const write = ([x, y], text, anchor, name = "") => {
  const label = draw("text", { x, y, "text-anchor": anchor, class: name });
  label.textContent = text;
  return label;
};

function axes(place, points, step, top) {
  const lines = [];
  for (let ms = 0; ms <= top + step / 2; ms += step) {
    const [, y] = place([1, ms]);
    lines.push(draw("line", { class: "grid-line", x1: LEFT, x2: RIGHT, y1: y, y2: y }));
    lines.push(write([LEFT - 5, y + 4], `${Number(ms.toFixed(6))}`, "end"));
  }
  let free = -Infinity; // the end of the last label; labels without room are left out
  for (const positions of [...new Set(points.map(([k]) => k))].sort((a, b) => a - b)) {
    const [x] = place([positions, 0]);
    const half = (DIGIT * `${positions}`.length) / 2 + 1;
    if (x - half < free) continue;
    lines.push(write([x, BOTTOM + 15], `${positions}`, "middle"));
    free = x + half;
  }
  lines.push(
    write([LEFT - 5, 10], "ms", "end"),
    write([(LEFT + RIGHT) / 2, HEIGHT - 8], "positions of a forward", "middle"),
  );
  return lines;
}

const titled = (shape, text) => {
  const title = draw("title");
  title.textContent = text;
  shape.append(title);
  return shape;
};
const dotAt = ([cx, cy], text) => titled(draw("circle", { class: "used", cx, cy, r: 4.5 }), text);
const squareAt = ([x, y], text) =>
  titled(draw("rect", { class: "one", x: x - 6, y: y - 6, width: 12, height: 12 }), text);

/**
 * Label the marks with their numbers of forwards, where there is room. `one` is the time of the baseline's
 * mark.
 */
function counts(sizes, place, one) {
  let free = -Infinity;
  return sizes.flatMap(({ positions, ms, count }) => {
    const [x, y] = place([positions, positions === 1 ? Math.max(ms, one) : ms]);
    const half = (DIGIT * (`${count}`.length + 1)) / 2 + 1;
    if (x - half < free) return [];
    free = x + half;
    return [write([x, y - 10], `×${count}`, "middle", "count")];
  });
}

const sizeText = ({ positions, count, ms }) =>
  `${plural(positions, "position")}: ${plural(count, "forward")}, median ${ms.toFixed(1)} ms`;

function costsInWords(recorded, sizes, one) {
  const costs = recorded?.map(([k, ms]) => `${plural(k, "position")} ${ms.toFixed(1)} ms`).join(", ");
  const sentences = [
    `Forwards of this run: ${sizes.map(sizeText).join("; ") || "none after the prefill"}.`,
    ...one.map(({ ms }) => `One token per forward: median ${ms.toFixed(1)} ms.`),
  ];
  return [...(costs ? [`Cost of a forward: ${costs}.`] : []), ...sentences].join(" ");
}

function legendOf(recorded, one) {
  const square = one.length ? ["□ one token per forward"] : [];
  return [
    "● this run: median, × forwards",
    recorded ? "— measured before the run" : "┄ between the medians",
    ...square,
  ];
}

// ---------------------------------------------------------------------------------------------- bars

function drawRows(list, rows) {
  list.replaceChildren(
    ...rows.map(({ name, share, text }) => {
      const row = make("li", "row");
      const bar = makeBar();
      fillBar(bar, share);
      row.append(make("span", "row-name", name), bar, make("span", "part", text));
      return row;
    }),
  );
}

const slotRows = (run) =>
  slotsOf(run).map(({ had, accepted }, index) => {
    const share = had ? accepted / had : 0;
    return { name: `${index + 1}`, share, text: `${Math.round(100 * share)}% (${accepted} of ${had})` };
  });

function drawTimes(figure, run) {
  const { prefill, others, parts } = timesOf(run);
  const drafted = run.mode.needs_draft ? "drafts, " : "";
  const named = parts
    ? [
        ["prefill", prefill],
        ["model", parts.model],
        ["reading logits", parts.read],
        [`${drafted}recording`, parts.rest],
      ]
    : [
        ["prefill", prefill],
        ["other forwards", others],
      ];
  const row = ([name, ms]) => ({
    name,
    share: run.ms ? ms / run.ms : 0,
    text: `${Math.round((100 * ms) / (run.ms || 1))}% (${ms.toFixed(0)} ms)`,
  });
  drawRows(find("ol", figure), named.map(row));
  const missing =
    parts || run.passes.length < 2
      ? ""
      : " This record does not separate the model from reading its logits.";
  say(
    find(".times-words", figure),
    `The clock counts forwards only, not the page or the connection.${missing}`,
  );
}

// ------------------------------------------------------------------------------------- other windows

/** Draw a row per τ: {name, window, factor, own}. */
function drawEstimates(figure, rows) {
  figure.hidden = !rows.length;
  find("tbody", figure).replaceChildren(
    ...rows.map(({ name, window, factor, own }) => {
      const row = make("tr", own ? "own" : "");
      row.append(
        make("th", "", name),
        make("td", "", plural(window, "slot")),
        make("td", "", times(factor)),
      );
      row.firstChild.scope = "row";
      return row;
    }),
  );
}
