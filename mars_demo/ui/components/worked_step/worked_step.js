// Draws windows of slots below the positions of a text. Python decides what is accepted.
//
// `props.value` is the JSON of `worked_step.worked`, which also answers each move of a slider.

import { props, server, watch } from "../component.js";
import { find, findAll, make, say } from "../dom.js";
import { TAU_STEP } from "../words.js";

const MARKS = { accepted: "✓", rejected: "✗", dropped: "⊘", ignored: "○" };
const NAMES = {
  accepted: "accepted",
  rejected: "first below τ",
  dropped: "at least τ, but dropped",
  ignored: "ignored",
};

let step = null; // the last answer
let settings = null; // those of the sliders
let asking = false;
let stale = false;

const two = (number) => number.toFixed(2);

/** Return a slot in its column; the columns are the positions of the text. */
function slotOf({ place, score, state }, slot) {
  const box = make("div", "slot");
  box.dataset.state = state;
  box.style.setProperty("--place", place);
  const number = make("span", "number", `${slot + 1}`);
  number.prepend(make("span", "word", "slot "));
  box.append(number, make("b", "score", two(score)), make("span", "mark", MARKS[state]));
  box.setAttribute("role", "img");
  const always = slot === 0 ? ", always" : "";
  box.setAttribute(
    "aria-label",
    `Slot ${slot + 1}, position ${place}, score ${two(score)}: ${NAMES[state]}${always}`,
  );
  return box;
}

function heads() {
  const most = step.windows.length * step.windows[0].slots.length;
  return Array.from({ length: most }, (_, index) => {
    const head = make("span", "place", `${index + 1}`);
    head.style.setProperty("--place", index + 1);
    return head;
  });
}

function draw() {
  find(".worked").style.setProperty("--places", step.windows.length * step.windows[0].slots.length);
  const first = make("div", "line");
  first.append(make("span", "name", "position"), ...heads());
  const lines = step.windows.map(({ slots }, index) => {
    const line = make("div", "line");
    line.dataset.forward = index % 2;
    line.append(make("span", "name", `forward ${index + 1}`), ...slots.map(slotOf));
    return line;
  });
  find(".rows").replaceChildren(first, ...lines);
  find(".words").replaceChildren(...step.windows.map(({ words }) => make("li", "", words)));
  say(find(".sum"), step.words);
  find(".worked").dataset.shown = JSON.stringify({ tau: step.tau, scores: scoresOf(step) });
}

const scoresOf = ({ windows }) => windows.map(({ slots }) => slots.map(({ score }) => score));

/** Request the step of the sliders; during a request, only the last move counts. */
async function ask() {
  if (asking) {
    stale = true;
    return;
  }
  asking = true;
  try {
    do {
      stale = false;
      step = await server.asked(settings);
      draw();
    } while (stale);
  } catch {
    say(find(".sum"), "The server did not respond; the figure shows the previous settings.");
  } finally {
    asking = false;
  }
}

// ------------------------------------------------------------------------------------------ sliders

function slider(name, value, set) {
  const label = make("label", "slider");
  const range = make("input", "");
  Object.assign(range, { type: "range", min: 0, max: 1, step: TAU_STEP });
  range.value = value;
  const shown = make("output", "", two(value));
  range.addEventListener("input", () => {
    say(shown, two(range.valueAsNumber));
    set(range.valueAsNumber);
    ask();
  });
  label.append(make("span", "", name), range, shown);
  return label;
}

function group(title, sliders) {
  const box = make("fieldset", "");
  box.append(make("legend", "", title), ...sliders);
  return box;
}

function controls() {
  const tau = slider("τ", settings.tau, (value) => (settings.tau = value));
  tau.classList.add("tau");
  const groups = settings.scores.map((scores, window) =>
    group(
      `Scores of forward ${window + 1}`,
      scores.map((score, slot) => slider(`slot ${slot + 1}`, score, (value) => (scores[slot] = value))),
    ),
  );
  find(".controls").replaceChildren(tau, ...groups);
  findAll(".controls input").forEach((range, index) => {
    const window = Math.floor((index - 1) / settings.scores[0].length);
    if (index)
      range.setAttribute(
        "aria-label",
        `Forward ${window + 1}, slot ${((index - 1) % settings.scores[0].length) + 1}`,
      );
    else range.setAttribute("aria-label", "Threshold τ");
  });
}

function update() {
  if (!props.value) return;
  step = JSON.parse(props.value);
  settings = { tau: step.tau, scores: scoresOf(step) };
  controls();
  draw();
}

watch("value", update);
update();
