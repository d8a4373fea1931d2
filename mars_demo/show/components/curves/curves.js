// The curves of a training, drawn as its record grows, with a replay of its steps.

import { constants, props, server, watch } from "../component.js";
import { draw, drawBars, find, make, say } from "../dom.js";
import { Lines } from "../lines.js";
import { Playback } from "../playback.js";
import { fixed } from "../words.js";

// Name → chart, side of the scale, label. The series of a side share its scale.
const SERIES = {
  clean: ["loss", "left", "clean stream: the text itself"],
  noisy: ["loss", "left", "noisy stream: the masks"],
  accuracy: ["probe", "left", "accuracy"],
  tokens_per_forward: ["probe", "right", "tokens per forward"],
};
const SMOOTH = 20; // steps of the running mean of losses

const lines = new Lines();
let state;
const count = () => state.steps.length;
const playback = new Playback(count, show);
let sent = null; // the answer on the stage

function clear() {
  state = { settings: null, steps: [], probes: [], answers: [] };
  sent = null;
  playback.follow();
}

function take(record) {
  if (record.training) state.settings = record;
  else if (record.answer !== undefined) state.answers.push(record);
  else if (record.probe !== undefined) state.probes.push(record);
  else if (record.step) state.steps.push(record);
}

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Return the points [step, value] of a series: of the probes, or running means of the losses. */
function pointsOf(name) {
  if (SERIES[name][0] === "probe") return state.probes.map((probe) => [probe.probe, probe[name]]);
  const steps = state.steps.filter((step) => step[name] !== undefined);
  const recent = (index) => steps.slice(Math.max(0, index + 1 - SMOOTH), index + 1);
  return steps.map(({ step }, index) => [step, mean(recent(index).map((one) => one[name]))]);
}

/** Return the end of a series' scale; all scales begin at zero. */
function topOf(name) {
  if (name === "accuracy") return 1;
  const scaleOf = ([chart, side]) => `${chart} ${side}`;
  const shared = Object.keys(SERIES).filter((other) => scaleOf(SERIES[other]) === scaleOf(SERIES[name]));
  return Math.max(1, ...shared.flatMap(pointsOf).map(([, y]) => y));
}

function drawSeries(name) {
  const [chart, side, label] = SERIES[name];
  const figure = find(`[data-chart="${chart}"]`);
  const svg = find("svg", figure);
  let path = find(`path[data-series="${name}"]`, svg);
  let key = find(`span[data-series="${name}"]`, figure);
  if (!path) {
    path = draw("path", { "data-series": name });
    svg.append(path);
    key = make("span", "");
    key.dataset.series = name;
    key.append(make("i", ""), make("b", ""));
    find(".legend", figure).append(key);
  }
  const all = pointsOf(name);
  const points = all.filter(([step]) => step <= playback.shown);
  const top = topOf(name);
  const written = (value) => (name === "accuracy" ? `${fixed(100 * value, 0)}%` : fixed(value, 2));
  svg.setAttribute("viewBox", `0 0 ${state.settings.recipe.steps} 1`);
  path.setAttribute("d", points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${1 - y / top}`).join(""));
  const last = points.at(-1)?.[1];
  if (all.length)
    find(`.scale.${side}`, figure).replaceChildren(make("span", "", written(top)), make("span", "", "0"));
  key.lastChild.textContent = last === undefined ? label : `${label} ${written(last)}`;
  key.hidden = last === undefined;
}

function drawSlots() {
  const recent = state.steps.slice(0, playback.shown).slice(-SMOOTH);
  const slots = Math.max(0, ...recent.map((step) => step.slots.length));
  const rows = Array.from({ length: slots }, (_, slot) => {
    const predictions = recent.map((step) => step.slots[slot]).filter(Boolean);
    const right = mean(predictions.map(([, share]) => share));
    const loss = mean(predictions.map(([nats]) => nats));
    return { name: `${slot + 1}`, share: right, text: `${fixed(100 * right, 0)}%, ${fixed(loss, 2)} nats` };
  });
  drawBars(find(".slots"), rows);
}

/** Draw the latest answers to the held-out prompts. */
function drawHeldOut() {
  const probe = state.probes.findLast(({ probe }) => probe <= playback.shown);
  find(".held-out").hidden = !probe;
  if (!probe) return;
  const right = probe.prompts.filter((prompt) => prompt.right).length;
  say(
    find(".held-out summary"),
    `Held-out prompts after step ${probe.probe}: ${right} of ${probe.prompts.length} right`,
  );
  find(".held-out ol").replaceChildren(
    ...probe.prompts.map(({ prompt, text, right, tokens_per_forward }) => {
      const row = make("li", "");
      const rate = `${fixed(tokens_per_forward, 2)} tokens per forward`;
      row.append(
        make("b", "mark", right ? "✓ right" : "✗ wrong"),
        make("p", "prompt", prompt),
        make("p", "answer", text),
        make("span", "rate", rate),
      );
      return row;
    }),
  );
}

/** Show the answer of the step on the stage, with the base model's if that is in another mode. */
function drawAnswer() {
  const answer = state.answers.findLast(({ answer }) => answer <= playback.shown) ?? state.settings;
  if (answer === sent) return;
  sent = answer;
  const { before } = state.settings;
  const { record = before } = answer;
  const both = record[0].mode === before[0].mode ? record : [...record, ...before];
  const detail = both.map((line) => JSON.stringify(line)).join("\n");
  find(`#${constants.stage} .stage`, document).dispatchEvent(new CustomEvent("record", { detail }));
}

function drawReplay() {
  const { steps } = state.settings.recipe;
  const step = state.steps[playback.shown - 1];
  playback.draw(steps);
  const details = step
    ? `, ${step.tokens.toLocaleString("en")} tokens, learning rate ${step.learning_rate.toExponential(1)}`
    : "";
  say(find(".progress"), `Step ${playback.shown} of ${steps}${details}`);
}

function show() {
  Object.keys(SERIES).forEach(drawSeries);
  drawSlots();
  drawHeldOut();
  drawReplay();
  drawAnswer();
}

// ------------------------------------------------------------------------------------ the record

function read(value) {
  for (const line of lines.take(value, clear)) take(JSON.parse(line));
  if (state.settings) show();
}

function note(sentence) {
  say(find(".note"), sentence);
  find(".note").hidden = !sentence;
}

function update() {
  if (!props.value) return;
  note("");
  read(props.value);
}

async function showRecording({ id, title }) {
  const text = await server.training_recording(id);
  if (props.value) return; // a training has begun
  read(text);
  note(
    `This is a recording: “${title}”, trained earlier (${state.settings.machine}). ` +
      "Press Train to train a model now.",
  );
}

clear();
watch("value", update);
if (props.value) update();
else if (constants.recordings.length) showRecording(constants.recordings[0]);
