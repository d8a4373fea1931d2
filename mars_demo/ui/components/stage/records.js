// Records come onto the stage: from the server while a race runs, or whole from elsewhere.

import { constants, props } from "../component.js";
import { find } from "../dom.js";
import { Lines } from "../lines.js";
import { forgetSteps, nextStep, settleBranch } from "./branches.js";
import { hideCard } from "./card.js";
import { conversation, tellHistory } from "./conversation.js";
import { growHeat } from "./heat.js";
import { keep, leaveOut } from "./history.js";
import { Lane, scaleFor } from "./lane.js";
import { forget, opensSteps, wanted } from "./links.js";
import { compared, counterpartOf, inOrder, isBaseline } from "./modes.js";
import { firstDifference } from "./passes.js";
import { Reader } from "./record.js";
import { goTo } from "./replay.js";
import { clear, focused, runs, show, stage, view } from "./state.js";
import { plant } from "./tree.js";
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
  let anew = view.ended; // a branch of what the value held before
  const fresh = lines.take(props.value || "", () => {
    begin(true);
    anew = true;
  });
  if (!fresh.length) return;
  try {
    for (const line of fresh) stage.reader.take(line);
    if (anew) arrive();
    grow();
  } catch (error) {
    complain(error.message);
  }
}

/** The address names what has come: a branch of what it named before, or a race. */
function arrive() {
  const branched = settleBranch();
  if (branched) Object.assign(view, { focus: null, pinned: null, ended: false }); // the new lane is shown
  if (branched) hideCard();
  if (constants.shelf && !branched && !wanted.pass && !opensSteps()) forget(["run", "lane", "pass", "branch", "beside"]);
  if (!opensSteps()) forgetSteps();
  if (onPhone() && !branched) find(".stage").scrollIntoView();
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

/** Whole records that the server wrote or has checked, side by side, `chosen` by the visitor; `about` is what the
 * stage knows of them besides. Throws a sentence if they are too many, and then leaves the stage as it is. */
export function open(texts, chosen = true, about = {}) {
  const whole = new Reader();
  for (const part of [texts].flat()) read(part, whole);
  begin(false);
  lines = new Lines();
  Object.assign(stage, about, { reader: whole });
  if (constants.shelf && chosen) tellHistory();
  grow();
}

/** One more record beside the one on the stage, or in place of the one that is beside it. */
export function openBeside(text, about) {
  const [race] = stage.reader.races;
  if (!race) throw new Error("There is no record on the stage yet to compare with.");
  open([stage.reader.textOf(race), text], true, { recording: stage.recording, ...about });
}

function read(text, whole) {
  const before = runs(whole).length;
  if (before) whole.beginRace();
  for (const line of text.split("\n")) if (line.trim()) whole.take(line);
  for (const run of runs(whole).slice(before)) run.done ||= { done: true, stop: "stopped" };
}

/** New passes came: grow the lanes, then show. */
function grow() {
  const { reader } = stage;
  for (const run of inOrder(reader.runs)) laneOf(run).grow(run);
  if (!focused() || (isBaseline(focused()) && !view.pinned)) view.focus = mostTelling(reader.runs);
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

function laneOf(run) {
  if (!view.lanes[run.lane]) {
    view.lanes[run.lane] = new Lane(run);
    find(".lanes").append(...inOrder(view.lanes).map(({ root }) => root));
  }
  return view.lanes[run.lane];
}

/** The newest branch, else the first lane that is not the baseline, whose windows hold one slot each. */
function mostTelling(all) {
  const found = compared(all);
  return (found.findLast(({ branch }) => branch) ?? found[0])?.lane ?? null;
}

/** Once per record, when all its runs have ended. */
function finish() {
  view.ended = true;
  const { runs: ended } = stage.reader;
  markDifferences(ended);
  find(".stage").dispatchEvent(new CustomEvent("raced", { bubbles: true, detail: Object.values(ended).map(told) }));
  if (constants.shelf) remember(ended);
  attempt(nextStep);
  if (!wanted.pass || (wanted.lane && !ended[wanted.lane])) return;
  view.focus = wanted.lane ?? view.focus;
  if (wanted.pass <= focused().passes.length) goTo(focused().ends[wanted.pass - 1]);
  wanted.lane = wanted.pass = null;
}

/** What brings the stage back to what it shows now. */
function remember(ended) {
  const { reader, recording, beside, steps, live, raced } = stage;
  const texts = reader.races.map((race) => reader.textOf(race));
  const reopen = (about) => attempt(() => open(texts, true, { recording, beside, steps, ...about }));
  if (live) keep(ended, () => reopen());
  else leaveOut(ended);
  plant(ended, (name) => {
    reopen({ raced });
    focusOn(name);
  });
}

function focusOn(name) {
  view.focus = runs().find(({ settings }) => settings.run === name)?.lane ?? view.focus;
  show();
}

/** A run as others on the page hear of it: when it came, and what each of its forwards accepted. */
const told = ({ mode, title, settings, passes, stopped }) => ({
  mode: mode.name,
  title,
  prompt: settings.prompt,
  stopped,
  begun: stage.begun,
  accepted: passes.map(({ slots, accepted }) => slots.slice(0, accepted)),
});

/** Where an answer leaves the one that it is held against, both tokens are marked. */
function markDifferences(ended) {
  for (const run of Object.values(ended)) {
    const other = counterpartOf(run, ended);
    if (!other || other.stopped || run.stopped) continue;
    const index = firstDifference(other.answerIds, run.answerIds);
    if (index === null) continue;
    for (const { lane } of [run, other]) view.lanes[lane].place(index)?.classList.add("differs");
  }
}
