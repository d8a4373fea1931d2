// What the stage shows: the record, the playhead and the selection. Whoever changes one of them calls `show`.

import { Reader } from "./record.js";

/** The record on the stage and where it comes from. */
export const stage = {
  reader: new Reader(),
  live: false, // it comes from the server while it grows
  begun: 0, // when it came, on the page's clock
  raced: false, // it is of the race that the address opens, or of a branch of that
  recording: null, // the id of the recorded run that it is, or branches from
  beside: null, // the id of the one beside it
  steps: [], // the branches since then, as `branches.js` writes them
};

const untouched = () => ({
  lanes: {}, // as they are drawn, by name
  time: null, // of the replay's clock, ms; null follows the record
  playing: null, // when the last frame of the replay was drawn
  hover: null, // {lane, pass, slot}
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
  Object.assign(stage, { reader: new Reader(), live, begun: performance.now(), raced: live, recording: null, beside: null, steps: [] });
  Object.assign(view, untouched());
}

export const runs = (reader = stage.reader) => Object.values(reader.runs);
export const focused = () => stage.reader.runs[view.focus];
export const total = () => Math.max(0, ...runs().map((run) => run.ms));
export const selection = () => view.hover ?? view.pinned;

/** The forward in the window: the selected one, otherwise the latest that can be seen. */
export function shownPass() {
  const chosen = selection();
  const lane = chosen?.lane ?? view.focus;
  return { lane, number: chosen?.pass ?? (view.lanes[lane]?.shown ?? 0) - 1 };
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
