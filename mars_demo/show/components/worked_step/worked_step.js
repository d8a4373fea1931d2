// A worked example of decoding steps: accepted slots, and the start of the next window. The reader moves τ and
// the scores.
//
// `props.value` is the JSON of a chapter's `tau` and `scores`, a list per forward; empty before a chapter is open.

import { accepted, admits, several } from "../acceptance.js";
import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { TAU_STEP, plural, tauText } from "../words.js";

const STATES = {
  accepted: ["✓", "accepted"],
  rejected: ["✗", "first below τ"],
  dropped: ["⊘", "at least τ, but dropped"],
  ignored: ["○", "ignored"],
};

/** The settings of the sliders. */
let step = { tau: 1, scores: [[0]] };

// ------------------------------------------------------------------------------------- the windows

/** Return the windows: the first position in the text, counted from 1, the accepted slots, and the states. */
function windows() {
  let next = 1;
  return step.scores.map((scores) => {
    const first = next;
    const count = accepted(scores, step.tau);
    next += count;
    return { first, count, scores, states: scores.map((score, slot) => stateOf(score, slot, count)) };
  });
}

function stateOf(score, slot, count) {
  if (slot < count) return "accepted";
  if (slot === count && several(step.tau)) return "rejected";
  return admits(score, step.tau) ? "dropped" : "ignored";
}

/** Describe a window. */
function wordsOf({ first, count, states }) {
  const begins = `The next window begins at position ${first + count}.`;
  if (!several(step.tau)) return `At τ = 1 only slot 1 is accepted; nothing is compared. ${begins}`;
  const numbers = states.map((_, slot) => slot + 1);
  const taken = numbers.slice(1, count);
  const dropped = numbers.filter((number) => states[number - 1] === "dropped");
  const scores = taken.length > 1 ? "their scores are" : "its score is";
  const because = taken.length ? `, ${slots(taken)} because ${scores} at least τ` : "";
  const ends =
    count < states.length ? `. Slot ${count + 1} is the first below τ and ends the acceptance` : "";
  const lost = dropped.length
    ? `. S${slots(dropped).slice(1)}, though at least τ, ${dropped.length > 1 ? "are" : "is"} dropped: ` +
      `predicted before the token at position ${first + count} was known`
    : "";
  return `Slot 1 is accepted without a comparison${because}${ends}${lost}. ${begins}`;
}

const slots = (numbers) =>
  numbers.length > 1 ? `slots ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}` : `slot ${numbers}`;

function sum(all) {
  const [forwards, tokens] = [all.length, all.reduce((total, { count }) => total + count, 0)];
  const each = `${tokens / forwards} token${tokens > forwards ? "s" : ""} per forward`;
  return `${forwards} forwards gave ${plural(tokens, "token")}: ${each}. One token at a time takes ${tokens} forwards.`;
}

// ------------------------------------------------------------------------------------- the drawing

/** Return an element in the column of a position. */
function at(place, node) {
  node.style.setProperty("--place", place);
  return node;
}

/** Return a slot of a window. */
function slotOf({ first, scores, states }, slot) {
  const [mark, name] = STATES[states[slot]];
  const [score, place] = [tauText(scores[slot]), first + slot];
  const box = at(place, make("div", "slot"));
  box.dataset.state = states[slot];
  const number = make("span", "number", `${slot + 1}`);
  number.prepend(make("span", "word", "slot "));
  box.append(number, make("b", "score", score), make("span", "mark", mark));
  box.role = "img";
  const always = slot === 0 ? ", always" : "";
  box.ariaLabel = `Slot ${slot + 1}, position ${place}, score ${score}: ${name}${always}`;
  return box;
}

function lineOf(name, nodes) {
  const line = make("div", "line");
  line.append(make("span", "name", name), ...nodes);
  return line;
}

function draw() {
  const all = windows();
  const places = all.length * step.scores[0].length;
  const heads = Array.from({ length: places }, (_, index) =>
    at(index + 1, make("span", "place", `${index + 1}`)),
  );
  const lines = all.map((window, index) => {
    const line = lineOf(
      `forward ${index + 1}`,
      window.states.map((_, slot) => slotOf(window, slot)),
    );
    line.dataset.forward = index % 2;
    return line;
  });
  find(".worked").style.setProperty("--places", places);
  find(".rows").replaceChildren(lineOf("position", heads), ...lines);
  find(".words").replaceChildren(...all.map((window) => make("li", "", wordsOf(window))));
  say(find(".sum"), sum(all));
}

// ------------------------------------------------------------------------------------------ sliders

function slider(name, label, value, set) {
  const row = make("label", "slider");
  const range = make("input", "");
  Object.assign(range, { type: "range", min: 0, max: 1, step: TAU_STEP, value, ariaLabel: label });
  const shown = make("output", "", tauText(value));
  range.addEventListener("input", () => {
    say(shown, tauText(range.valueAsNumber));
    set(range.valueAsNumber);
    draw();
  });
  row.append(make("span", "", name), range, shown);
  return row;
}

function controls() {
  const tau = slider("τ", "Threshold τ", step.tau, (value) => (step.tau = value));
  tau.classList.add("tau");
  const groups = step.scores.map((scores, forward) => {
    const group = make("fieldset", "");
    const sliders = scores.map((score, slot) =>
      slider(
        `slot ${slot + 1}`,
        `Forward ${forward + 1}, slot ${slot + 1}`,
        score,
        (value) => (scores[slot] = value),
      ),
    );
    group.append(make("legend", "", `Scores of forward ${forward + 1}`), ...sliders);
    return group;
  });
  find(".controls").replaceChildren(tau, ...groups);
}

function update() {
  if (!props.value) return;
  step = JSON.parse(props.value);
  controls();
  draw();
}

watch("value", update);
update();
