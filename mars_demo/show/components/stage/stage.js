// The stage: draws a record while it grows and afterwards.
//
// `props.value` is JSON lines, each with its lane. It only grows during a race; another first line begins a
// new record. A static page gives it `whole`. Events of the element give further records, see the end.

import { constants, props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { drawShares, drawWhatIf } from "./shares.js";
import { columnOf, drawHeatAt, drawHeatLegend, growHeat, showHeatUntil } from "./heat.js";
import { listen } from "./input.js";
import { drawInspector } from "./inspector.js";
import { opening, requested, updateUrlSoon } from "./link.js";
import { baselineOf } from "./modes.js";
import { drawCause, takeExamples } from "./offers.js";
import { follow, show } from "./records.js";
import { drawReplay, introduce } from "./replay.js";
import { listRecordings, showBeside, showRecording } from "./tools.js";
import { drawWith, focused, runs, selection, shownPass, stage, view } from "./state.js";
import { attempt } from "./errors.js";
import { verdict, warnings } from "./verdict.js";
import { plural } from "../words.js";
import { drawWhy } from "./why.js";
import { drawWindow } from "./window.js";

function render() {
  const { classList, dataset } = find(".stage");
  classList.toggle("over", stage.reader.over);
  dataset.state = stateOfRuns();
  dataset.run = (runs()[0]?.settings.run ?? "").replaceAll(/[^\w-]/g, ""); // a record may hold any text
  if (view.playing !== null || view.time === null) classList.toggle("replaying", view.playing !== null);
  for (const lane of Object.values(view.lanes)) {
    lane.showAt(view.time, view.playing !== null);
    lane.root.classList.toggle("focused", lane.name === view.focus);
  }
  drawHeading();
  drawCloseUp();
  drawReplay();
  if (constants.main && find(".recordings").value !== (stage.recording ?? ""))
    find(".recordings").value = stage.recording ?? "";
  if (constants.main && find(".beside").value !== (stage.beside ?? ""))
    find(".beside").value = stage.beside ?? "";
  updateUrlSoon();
}

function stateOfRuns() {
  if (!runs().length) return "empty";
  if (!stage.reader.over) return "running";
  return runs().some((run) => run.stopped) ? "stopped" : "done";
}

// ------------------------------------------------------------------------------------ the heading

function drawHeading() {
  const { reader } = stage;
  announce(runs().length ? verdict(reader.runs) : [constants.empty]);
  drawWarnings(warnings(reader.runs));
  const note = [...reader.races.map(noteOf), ...(constants.main && reader.recording ? [LIVE] : [])].join(
    " ",
  );
  say(find(".note"), note);
  drawCause();
  const { prompt = "", messages = [] } = runs()[0]?.settings ?? {};
  say(find(".prompt"), prompt);
  say(find(".asked b"), messages.length ? `Prompt after ${plural(messages.length, "message")}` : "Prompt");
  find(".asked").hidden = !prompt || reader.races.length > 1; // several races have it in the lanes
  say(find(".machine"), [...new Set(runs().map(({ settings }) => machineOf(settings)))].join(" · "));
}

/** Offer the warnings behind a sign: they are rare, and the verdict stays short. */
function drawWarnings(sentences) {
  const sign = find(".sign");
  sign.hidden = !sentences.length;
  sign.title = sentences.join("\n");
  say(find(".warnings"), sentences.join("\n"));
}

const LIVE = "Each colour is one forward; press Run to race live.";
const noteOf = ({ letter, recording }) =>
  recording ? `Recorded${letter && ` (${letter})`}: ${recording.title}. ${recording.note}` : "";

const DEVICES = { cpu: "CPU", cuda: "GPU", mps: "Apple GPU", wasm: "this browser" };
/** @param {import("../record.js").Settings} settings */
const machineOf = ({ model, device, gpu, dtype }) =>
  `${model} on ${gpu ?? DEVICES[device] ?? device}, ${dtype}`;

/** Show a line per sentence; screen readers announce a change once. */
function announce(sentences) {
  const line = find(".verdict");
  if (line.textContent === sentences.map((sentence) => `${sentence} `).join("")) return;
  line.replaceChildren(...sentences.map((sentence) => make("span", "", `${sentence} `)));
}

// ----------------------------------------------------------------------------------- the close-up

function drawCloseUp() {
  const slot = selection()?.slot ?? null;
  const { lane, number } = shownPass();
  const run = focused();
  const shown = view.lanes[view.focus]?.shown ?? 0;
  drawWindow(stage.reader.runs[lane], number, slot);
  growHeat(run);
  showHeatUntil(shown);
  drawShares(run, shown);
  markWhatIf(run);
  drawWhatIf(run, lane === view.focus ? number : shown - 1, view.whatIf);
  drawInspector();
  drawWhy(run, run && baselineOf(run, stage.reader.runs), stage.reader.over);
  light(lane, selection() || view.time !== null ? number : null, slot);
}

/** @type {{ run: any, tau: number | null }} */
let marked = { run: undefined, tau: null };

/** Mark what the run in focus would have accepted at another τ, which is dropped with the focus. */
function markWhatIf(run) {
  if (run !== marked.run) view.whatIf = null;
  const tau = view.whatIf;
  if (run === marked.run && tau === marked.tau) return;
  marked = { run, tau };
  for (const lane of Object.values(view.lanes)) lane.drawAt(lane.name === view.focus ? tau : null);
  drawHeatAt(tau);
}

let lit = [];

/** Highlight a forward in all drawings, and one of its tokens. */
function light(name, number, slot) {
  for (const node of lit) {
    node.classList.remove("lit", "chosen");
    if (node.matches(".token")) node.removeAttribute("aria-selected");
  }
  lit = [];
  const lane = view.lanes[name];
  if (!lane || number === null || number < 0) return;
  const column = name === view.focus ? columnOf(number) : null;
  const token = slot === null ? null : lane.token(number, slot);
  lit = [lane.groups[number], lane.bars[number], column].filter(Boolean);
  for (const node of lit) node.classList.add("lit");
  if (!token) return;
  token.classList.add("chosen");
  token.setAttribute("aria-selected", true);
  lit.push(token);
}

// ----------------------------------------------------------------------------------------- start

drawWith(render);
drawHeatLegend();
find(".sign").popoverTargetElement = find(".warnings");
listen();
find(".stage").classList.toggle("bare", constants.bare);
if (constants.main) {
  listRecordings();
  const [id, second] = opening();
  const started = requested.pass || second ? () => {} : introduce;
  if (id && !props.value)
    attempt(() => showRecording(id, false)).then(
      second ? () => attempt(() => showBeside(second)) : started,
    );
}
// Events of other scripts: records to show, also at an address, and examples.
find(".stage").addEventListener("record", ({ detail }) => attempt(() => show(detail)));
find(".stage").addEventListener("address", ({ detail }) => attempt(() => showRecording(detail, false)));
find(".stage").addEventListener("growing", ({ detail }) => follow(detail));
find(".stage").addEventListener("examples", ({ detail }) => takeExamples(detail));
const update = () => follow(props.value || "");
watch("value", update);
if (props.whole) attempt(() => show(props.value));
else update();
render();
