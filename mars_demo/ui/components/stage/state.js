// What the stage shows: the record, the playhead and the selection. Whoever changes one of them calls `show`.

import { Reader } from "./record.js";

/** The record on the stage and where it comes from. */
export const stage = {
  reader: new Reader(),
  live: false, // it comes from the server while it grows
  recording: null, // the id of the recorded run that it is
};

const untouched = () => ({
  lanes: {}, // by mode
  time: null, // of the replay's clock, ms; null follows the record
  playing: null, // when the last frame of the replay was drawn
  hover: null, // {mode, pass, slot}
  pinned: null, // the same; slot is null where a whole pass was chosen
  reply: null, // the lane whose answer the next run continues from
  whatIf: null, // the τ that is held against the run
  ended: false, // the record's end has been noticed
  intro: false, // the replay began by itself
});
export const view = {
  ...untouched(),
  focus: null, // the lane whose forwards are shown below and stepped through; it outlives a record
};

/** An empty stage. */
export function clear(live) {
  Object.assign(stage, { reader: new Reader(), live, recording: null });
  Object.assign(view, untouched());
}

export const runs = () => Object.values(stage.reader.runs);
export const focused = () => stage.reader.runs[view.focus];
export const total = () => Math.max(0, ...runs().map((run) => run.ms));
export const selection = () => view.hover ?? view.pinned;

/** The forward in the window: the selected one, otherwise the latest that can be seen. */
export function shownPass() {
  const chosen = selection();
  const mode = chosen?.mode ?? view.focus;
  return { mode, number: chosen?.pass ?? (view.lanes[mode]?.shown ?? 0) - 1 };
}

let render = () => {};
let scheduled = false;

/** What draws the state; it is above all that changes it. */
export function drawWith(draw) {
  render = draw;
}

/** Draw before the next frame, however many things changed until then. */
export function show() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}
