// Records on the stage: growing ones from the server, and complete ones.

import { constants } from "../component.js";
import { deleteRecording } from "../../url.js";
import { find } from "../dom.js";
import { Lines } from "../lines.js";
import { hideCard } from "./card.js";
import { fitAnswers } from "./fit.js";
import { growHeat } from "./heat.js";
import { Lane, scaleFor } from "./lane.js";
import { requested } from "./link.js";
import { compared, counterpartOf, inOrder, isBaseline } from "./modes.js";
import { firstDifference } from "./passes.js";
import { Reader } from "./run.js";
import { goTo } from "./replay.js";
import { clear, focused, runs, redraw, stage, view } from "./state.js";
import { showError } from "./errors.js";

let lines = new Lines(); // of a growing record; the same text may come more than once

export const onPhone = () => matchMedia("(max-width: 640px)").matches;

function begin(live) {
  clear(live);
  find(".lanes").replaceChildren();
  find(".lanes").style.removeProperty("--fit");
  growHeat(null);
  hideCard();
  showError("");
}

/**
 * Show a complete and validated record, or a list of records side by side. `about`: further fields of the
 * stage's state. Throw a sentence if there are too many runs; the stage stays as it is.
 */
export function show(record, about = {}) {
  const whole = new Reader();
  for (const text of [record].flat()) read(text, whole);
  begin(false);
  lines = new Lines();
  Object.assign(stage, about, { reader: whole });
  grow();
}

/** Show a growing record, which comes again with each new line of a race. */
export function follow(record) {
  let anew = false;
  const fresh = lines.take(record, () => {
    begin(true);
    anew = true;
  });
  if (!fresh.length) return;
  try {
    for (const line of fresh) stage.reader.take(line);
    if (anew) arrive();
    grow();
  } catch (/** @type {any} */ error) {
    showError(error.message);
  }
}

/** Adapt the view and the URL to a new race. */
function arrive() {
  if (!constants.main) return;
  if (!requested.pass) deleteRecording();
  if (onPhone()) find(".stage").scrollIntoView();
}

/** Scroll to the heading of what the visitor has chosen to see, unless it is in view. */
export async function inView(shown) {
  await shown;
  find(".heading").scrollIntoView({ block: "nearest" });
}

function read(text, whole) {
  const before = runs(whole).length;
  if (before) whole.beginRace();
  for (const line of text.split("\n")) if (line.trim()) whole.take(line);
  for (const run of runs(whole).slice(before)) run.done ||= { stop: "stopped" };
}

/** Draw new passes. */
function grow() {
  const { reader } = stage;
  for (const run of inOrder(reader.runs)) laneOf(run).grow(run);
  if (!focused() || (isBaseline(focused()) && !view.pinned)) view.focus = mostTelling(reader.runs);
  const rescale = (largest) => (reader.over ? largest : scaleFor(1.05 * largest));
  const most = (measure) => Math.max(...runs().map(measure));
  const scale = { time: rescale(most((run) => run.ms)) || 1, height: most((run) => run.most) };
  for (const lane of Object.values(view.lanes)) lane.scale(scale);
  fit(stage.live);
  if (reader.over && !view.ended) finish();
  redraw();
}

const sizes = new ResizeObserver(() => fit());

/** Fit the answers to one screen; on phones and beside texts, boxes follow their answers. */
function fit(growing = false) {
  if (!constants.bare && !onPhone()) fitAnswers(view.lanes, growing);
}

function laneOf(run) {
  if (!view.lanes[run.lane]) {
    view.lanes[run.lane] = new Lane(run);
    sizes.observe(view.lanes[run.lane].answer);
    find(".lanes").append(...inOrder(view.lanes).map(({ root }) => root));
  }
  return view.lanes[run.lane];
}

/** Return the lane to focus: the first one other than the baseline. */
const mostTelling = (all) => compared(all)[0]?.lane ?? null;

/** Handle the end of a record: called once, when all its runs have ended. */
function finish() {
  view.ended = true;
  const { runs: ended } = stage.reader;
  markDifferences(ended);
  if (!requested.pass || (requested.lane && !ended[requested.lane])) return;
  view.focus = requested.lane ?? view.focus;
  if (requested.pass <= focused().passes.length) goTo(focused().ends[requested.pass - 1]);
  requested.lane = requested.pass = null;
}

/** Mark the first difference between an answer and its counterpart, in both lanes. */
function markDifferences(ended) {
  for (const run of Object.values(ended)) {
    const other = counterpartOf(run, ended);
    if (!other || other.stopped || run.stopped) continue;
    const index = firstDifference(other.ids, run.ids);
    if (index === null) continue;
    for (const { lane } of [run, other]) view.lanes[lane].place(index)?.classList.add("differs");
  }
}
