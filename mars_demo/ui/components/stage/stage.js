// The stage: draws a record, while it grows and afterwards.
//
// `props.value` is JSON lines, each tagged with its lane, and only grows during a race; a new first line
// is a new record. Only lines not read yet are read, so hearing of a value twice changes nothing.

import { constants, props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { drawShares, drawWhatIf } from "./acceptance.js";
import { drawConversation, offerReply } from "./conversation.js";
import { drawDifference } from "./difference.js";
import { columnOf, drawHeatLegend, growHeat, showHeatUntil } from "./heat.js";
import { listen } from "./input.js";
import { addressed, rememberSoon, wanted } from "./links.js";
import { sides } from "./modes.js";
import { follow, leaveConversation, open } from "./records.js";
import { drawReplay, introduce } from "./replay.js";
import { listRecordings, showRecording } from "./shelf.js";
import { drawWith, focused, runs, selection, shownPass, stage, view } from "./state.js";
import { attempt } from "./trouble.js";
import { verdict } from "./verdict.js";
import { drawWhy } from "./why.js";
import { drawWindow } from "./window.js";

function render() {
  const { classList } = find(".stage");
  classList.toggle("over", stage.reader.over);
  if (view.playing !== null || view.time === null) classList.toggle("replaying", view.playing !== null);
  for (const lane of Object.values(view.lanes)) {
    lane.showAt(view.time, view.playing !== null);
    offerReply(lane);
    lane.root.classList.toggle("focused", lane.mode === view.focus);
  }
  drawHeading();
  drawConversation();
  drawCloseUp();
  drawReplay();
  if (constants.shelf && find(".recordings").value !== (stage.recording ?? "")) find(".recordings").value = stage.recording ?? "";
  rememberSoon();
}

// ------------------------------------------------------------------------------------ the heading

function drawHeading() {
  const { reader } = stage;
  announce(runs().length ? verdict(reader.runs, reader.advice) : [constants.empty]);
  offerNearest(reader.over && reader.advice);
  const asked = runs()[0]?.settings.prompt ?? "";
  say(find(".prompt"), asked);
  find(".asked").hidden = !asked || view.reply !== null; // it stands above then
  say(find(".machine"), runs().length ? machineOf(runs()[0].settings) : "");
  const { title, note } = reader.recording ?? {};
  say(find(".note"), title ? `Recorded: ${title}. ${note}` : "");
  find(".hint").hidden = !constants.shelf || !title;
}

const DEVICES = { cpu: "CPU", cuda: "GPU", mps: "Apple GPU" };
const machineOf = ({ model, device, gpu, dtype }) => `${model} on ${gpu ?? DEVICES[device] ?? device}, ${dtype}`;

/** A line per sentence, spoken once. */
function announce(sentences) {
  const line = find(".verdict");
  if (line.textContent === sentences.map((sentence) => `${sentence} `).join("")) return;
  line.replaceChildren(...sentences.map((sentence) => make("span", "", `${sentence} `)));
}

/** The nearest example of a prompt that the model was not trained for. The result is no triumph then. */
function offerNearest(example) {
  find(".verdict").classList.toggle("outside", Boolean(example));
  find(".nearest").hidden = !example;
  if (example) say(find('[data-do="nearest"]'), `Run the nearest example: ${example.title}`);
}

// ----------------------------------------------------------------------------------- the close-up

function drawCloseUp() {
  const slot = selection()?.slot ?? null;
  const { mode, number } = shownPass();
  const run = focused();
  const shown = view.lanes[view.focus]?.shown ?? 0;
  drawWindow(stage.reader.runs[mode], number, slot);
  growHeat(run);
  showHeatUntil(shown);
  drawShares(run, shown);
  drawWhatIf(run, mode === view.focus ? number : shown - 1, view.whatIf);
  const [baseline, others] = sides(stage.reader.runs);
  drawDifference(run === baseline ? others[0] : run, baseline, stage.reader.over);
  drawWhy(run, baseline, stage.reader.over);
  light(mode, selection() || view.time !== null ? number : null, slot);
}

let lit = [];

/** Point out a forward wherever it is drawn, and one of its tokens. */
function light(mode, number, slot) {
  for (const node of lit) {
    node.classList.remove("lit", "chosen");
    if (node.matches(".token")) node.removeAttribute("aria-selected");
  }
  lit = [];
  const lane = view.lanes[mode];
  if (!lane || number === null || number < 0) return;
  const column = mode === view.focus ? columnOf(number) : null;
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
listen();
find(".stage").classList.toggle("bare", !constants.shelf);
if (constants.shelf) {
  listRecordings();
  const id = addressed();
  const started = wanted.pass ? () => {} : introduce;
  if (id && !props.value) attempt(() => showRecording(id, false)).then(started);
}
// A record that another component of the page has; a prompt that begins a new conversation.
find(".stage").addEventListener("record", ({ detail }) => attempt(() => open(detail)));
find(".stage").addEventListener("anew", leaveConversation);
watch("value", follow);
follow();
render();
