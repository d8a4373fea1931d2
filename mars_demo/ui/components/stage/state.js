// The state of the stage: record, playhead and selection. Call `show` after changing it.

import { Reader } from "./record.js";

/** The record on the stage and its origin. */
export const stage = {
  reader: new Reader(),
  live: false, // whether the server sends it while it grows
  raced: false, // whether it is the race of the URL's settings, or a branch of it
  recording: null, // the id of its recorded run, which it may branch from
  beside: null, // the id of the recorded run beside it
  steps: [], // the branches since then, see branches.js
};

const untouched = () => ({
  lanes: {}, // the drawn lanes by name
  time: null, // ms on the replay's clock; null follows the record
  playing: null, // the time of the last frame of a running replay
  hover: null, // {lane, pass, slot}
  pinned: null, // the same; `slot` is null for a whole pass
  reply: null, // the lane whose answer the next run continues
  whatIf: null, // the τ that the run is compared at
  ended: false, // whether the end of the record was handled
  intro: false, // whether the replay began by itself
});
export const view = {
  ...untouched(),
  focus: null, // the lane of the close-up and of the step buttons; kept across records
};

/** Empty the stage. */
export function clear(live) {
  Object.assign(stage, {
    reader: new Reader(),
    live,
    raced: live,
    recording: null,
    beside: null,
    steps: [],
  });
  Object.assign(view, untouched());
}

export const runs = (reader = stage.reader) => Object.values(reader.runs);
export const focused = () => stage.reader.runs[view.focus];
export const total = () => Math.max(0, ...runs().map((run) => run.ms));
export const selection = () => view.hover ?? view.pinned;

/** Return the forward of the close-up: the selected one, or the latest visible one. */
export function shownPass() {
  const chosen = selection();
  const lane = chosen?.lane ?? view.focus;
  return { lane, number: chosen?.pass ?? (view.lanes[lane]?.shown ?? 0) - 1 };
}

let render = () => {};
let scheduled = false;

/** Set the function that draws the state, whose module imports this one. */
export function drawWith(draw) {
  render = draw;
}

/** Draw once before the next frame. */
export function show() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}
