// The cost of a forward by its positions, and the speed-up: tokens per forward divided by that cost.
//
// `props.value` is JSON: the `curves`, each with its title, its source, c(k) ÷ c(1) for k = 1, 2, …
// (`relative`) and the measured k (`points`), and the `start` of the sliders: {positions, tokens}.

import { props, watch } from "../component.js";
import { draw, find, make, say, set } from "../dom.js";
import { plural } from "../words.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [34, 470, 12, 226];
const HIGHEST = 9; // the end of the slider of tokens and of the axis

let curves = [];

const chosen = () => curves[find(".curves").selectedIndex] ?? curves[0];
const costAt = (positions) => chosen().relative[positions - 1];
const place = (positions, value) => [
  LEFT + ((RIGHT - LEFT) * (positions - 1)) / (chosen().relative.length - 1),
  BOTTOM - ((BOTTOM - TOP) * value) / HIGHEST,
];

function write(x, y, text, anchor) {
  const label = draw("text", { x, y, "text-anchor": anchor });
  label.textContent = text;
  return label;
}

function axes() {
  const marks = [];
  for (let value = 0; value <= HIGHEST; value++) {
    const [, y] = place(1, value);
    marks.push(
      draw("line", { class: "grid-line", x1: LEFT, x2: RIGHT, y1: y, y2: y }),
      write(LEFT - 8, y + 4, `${value}`, "end"),
    );
  }
  for (const positions of chosen().points.filter((k) => k !== 2)) {
    marks.push(write(place(positions, 0)[0], BOTTOM + 18, `${positions}`, "middle"));
  }
  marks.push(write((LEFT + RIGHT) / 2, BOTTOM + 38, "positions of a forward, k", "middle"));
  return marks;
}

function drawing(positions, tokens) {
  const line = chosen()
    .relative.map((cost, index) => place(index + 1, cost).join(","))
    .join(" ");
  const [x, y] = place(positions, tokens);
  const [, onCurve] = place(positions, costAt(positions));
  const [, one] = place(1, 1);
  return [
    ...axes(),
    draw("line", { class: "free", x1: LEFT, x2: RIGHT, y1: one, y2: one }),
    draw("polyline", { class: "curve", points: line }),
    ...chosen().points.map((k) => {
      const [cx, cy] = place(k, costAt(k));
      return draw("circle", { class: "point", cx, cy, r: 4 });
    }),
    draw("line", { class: "drop", x1: x, x2: x, y1: y, y2: onCurve }),
    draw("path", { class: "own", d: `M${x} ${y - 8}L${x + 8} ${y}L${x} ${y + 8}L${x - 8} ${y}Z` }),
  ];
}

function show() {
  const [positions, tokens] = [find(".positions").valueAsNumber, find(".tokens").valueAsNumber];
  const cost = costAt(positions);
  const factor = tokens / cost;
  say(find(".positions-shown"), `${positions}`);
  say(find(".tokens-shown"), tokens.toFixed(1));
  const svg = find("svg");
  svg.replaceChildren(...drawing(positions, tokens));
  const size = plural(positions, "position");
  const costs = `A forward of ${size} costs ${cost.toFixed(2)} times as much as one of 1 position.`;
  set(svg, { "aria-label": costs });
  const speed = `${factor.toFixed(2)} times as fast as one token at a time`;
  const words = factor < 0.995 ? `${speed}, which is slower` : speed;
  say(find(".division"), `${tokens.toFixed(1)} tokens per forward ÷ ${cost.toFixed(2)} = ${words}.`);
  say(find(".even"), `${costs} It pays off only with more than ${cost.toFixed(2)} tokens per forward.`);
  say(find(".source"), `Source: ${chosen().source}.`);
}

function update() {
  if (!props.value) return;
  const value = JSON.parse(props.value);
  curves = value.curves;
  find(".costs").hidden = !curves.length;
  if (!curves.length) return;
  find(".curves").replaceChildren(...curves.map(({ title }) => make("option", "", title)));
  find(".positions").max = curves[0].relative.length;
  find(".positions").value = value.start.positions;
  find(".tokens").value = value.start.tokens;
  show();
}

for (const control of [".curves", ".positions", ".tokens"]) find(control).addEventListener("input", show);
watch("value", update);
update();
