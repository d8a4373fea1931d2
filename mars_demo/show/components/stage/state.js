// The state of the stage: record, playhead and selection. Call `redraw` after changing it.

import { Reader } from "./run.js";

const empty = (live = false) => ({
  reader: new Reader(),
  live, // whether the server sends it while it grows
  /** @type {string | null} */
  recording: null, // the id of its recorded run
  /** @type {string | null} */
  beside: null, // the id of the recorded run beside it
});

/** The record on the stage and its origin. */
export const stage = empty();

/** @typedef {{ lane: string, pass: number, slot: number | null }} Selection a token, or a whole pass */

const untouched = () => ({
  /** @type {Record<string, any>} */
  lanes: {}, // the drawn lanes by name
  /** @type {number | null} */
  time: null, // ms on the replay's clock; null follows the record
  /** @type {number | null} */
  playing: null, // the time of the last frame of a running replay
  /** @type {Selection | null} */
  hover: null,
  /** @type {Selection | null} */
  pinned: null,
  /** @type {number | null} */
  whatIf: null, // the τ that the run is compared at
  ended: false, // whether the end of the record was handled
  intro: false, // whether the replay began by itself
});
export const view = {
  ...untouched(),
  focus: "", // the lane of the close-up and of the step buttons; kept across records
};

/** Empty the stage. */
export function clear(live) {
  Object.assign(stage, empty(live));
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
export function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}
