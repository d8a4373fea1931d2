// Records come onto the stage: from the server while a race runs, or whole from elsewhere.

import { constants, props, server } from "../component.js";
import { find } from "../dom.js";
import { Lines } from "../lines.js";
import { hideCard } from "./card.js";
import { conversation, tellHistory } from "./conversation.js";
import { growHeat } from "./heat.js";
import { keep } from "./history.js";
import { Lane, scaleFor } from "./lane.js";
import { forget, wanted } from "./links.js";
import { BASELINE, inOrder, sides } from "./modes.js";
import { firstDifference } from "./passes.js";
import { Reader } from "./record.js";
import { goTo } from "./replay.js";
import { clear, focused, runs, show, stage, view } from "./state.js";
import { attempt, complain } from "./trouble.js";

let lines = new Lines(); // of the server's value, which may be announced more than once

export const onPhone = () => matchMedia("(max-width: 640px)").matches;

function begin(live) {
  clear(live);
  find(".lanes").replaceChildren();
  growHeat(null);
  hideCard();
  complain("");
}

/** The server's value has grown, or is another one. */
export function follow() {
  const fresh = lines.take(props.value || "", () => {
    begin(true);
    if (constants.shelf && !wanted.pass) forget(["run", "lane", "pass"]);
    if (onPhone()) find(".stage").scrollIntoView();
  });
  if (!fresh.length) return;
  for (const line of fresh) stage.reader.take(line);
  consult();
  grow();
}

/** For a new conversation. */
export function clearStage() {
  begin(false);
  show();
}

/** A prompt was chosen that has nothing to do with the conversation, if there is one. */
export function leaveConversation() {
  if (!conversation().some(({ role }) => role === "user")) return;
  clearStage();
  tellHistory(null);
}

/** A whole record from elsewhere, `chosen` by the visitor. Throws a sentence if it is none, and then leaves the
 * stage as it is. */
export function open(text, chosen = true) {
  const whole = read(text);
  begin(false);
  lines = new Lines();
  stage.reader = whole;
  if (constants.shelf && chosen) tellHistory();
  consult();
  grow();
}

function read(text) {
  const whole = new Reader();
  text.split("\n").forEach((line, number) => {
    if (!line.trim()) return;
    try {
      whole.take(line);
    } catch (error) {
      throw new Error(`This is not the record of a run: line ${number + 1} cannot be read (${error.message}).`);
    }
  });
  const found = Object.values(whole.runs);
  if (!found.some((run) => run.passes.length)) throw new Error("This is not the record of a run: it has no forward.");
  for (const run of found) run.done ||= { done: true, stop: "stopped" };
  return whole;
}

/** Ask once per record whether its prompt is outside what its model was trained on. */
async function consult() {
  const [run] = runs();
  const { reader } = stage;
  if (!constants.shelf || !run || reader.advice !== undefined) return;
  reader.advice = null;
  reader.advice = await server.advice(run.settings).catch(() => null);
  if (reader === stage.reader) show();
}

/** New passes came: grow the lanes, then show. */
function grow() {
  const { reader } = stage;
  for (const run of inOrder(reader.runs)) laneOf(run).grow(run);
  if (!focused() || (view.focus === BASELINE && !view.pinned)) view.focus = mostTelling(reader.runs);
  const rescale = (largest) => (reader.over ? largest : scaleFor(1.05 * largest));
  const most = (measure) => Math.max(...runs().map(measure));
  const scale = {
    time: rescale(most((run) => run.ms)) || 1,
    tokens: rescale(most((run) => run.ids.length)) || 1,
    height: most((run) => run.most),
  };
  for (const lane of Object.values(view.lanes)) lane.scale(scale);
  if (reader.over && !view.ended) finish();
  show();
}

function laneOf({ mode }) {
  if (!view.lanes[mode.name]) {
    view.lanes[mode.name] = new Lane(mode);
    find(".lanes").append(...inOrder(view.lanes).map((lane) => lane.root));
  }
  return view.lanes[mode.name];
}

/** The first mode that is not the baseline, whose windows hold one slot each. */
function mostTelling(runsByMode) {
  const [baseline, others] = sides(runsByMode);
  return (others[0] ?? baseline)?.mode.name ?? null;
}

/** Once per record, when all its runs have ended. */
function finish() {
  view.ended = true;
  const { runs: ended, file } = stage.reader;
  markDifferences(ended);
  if (stage.live && constants.shelf) keep(ended, () => attempt(() => open(file)));
  if (!wanted.pass || (wanted.mode && !ended[wanted.mode])) return;
  view.focus = wanted.mode ?? view.focus;
  if (wanted.pass <= focused().passes.length) goTo(focused().ends[wanted.pass - 1]);
  wanted.mode = wanted.pass = null;
}

/** Where an answer leaves the baseline's, both tokens are marked. */
function markDifferences(ended) {
  const [baseline, others] = sides(ended);
  if (!baseline || baseline.stopped) return;
  for (const run of others) {
    const index = run.stopped ? null : firstDifference(baseline.ids, run.ids);
    if (index === null) continue;
    for (const { mode } of [run, baseline]) view.lanes[mode.name].place(index)?.classList.add("differs");
  }
}
