// The table of modes from Python: titles, their order on the stage, and how the stage draws each. The name
// of a lane is the mode of its run; further lanes of the same mode are `mode~2`, `mode~3`, …

import { constants } from "../component.js";

/** @typedef {import("./run.js").Run} Run */

export const modes = new Map(constants.modes.map((mode) => [mode.name, mode]));
const BASELINE = constants.modes[0].name; // the mode that the others are compared with

const order = [...modes.keys()];

/** Return the sort key of a lane. */
const placeOf = (/** @type {string} */ lane) => {
  const [mode, number = 1] = lane.split("~");
  return [order.indexOf(mode), Number(number)];
};

/**
 * Return the values in the order of their lanes.
 * @template T
 * @param {Record<string, T>} byLane
 */
export function inOrder(byLane) {
  const lanes = Object.keys(byLane).map((lane) => ({ lane, place: placeOf(lane) }));
  lanes.sort((a, b) => a.place[0] - b.place[0] || a.place[1] - b.place[1]);
  return lanes.map(({ lane }) => byLane[lane]);
}

/** Return the lane of another run of a mode. */
export function freeLane(/** @type {string} */ mode, /** @type {object} */ byLane) {
  let number = 1;
  while (laneName(mode, number) in byLane) number++;
  return laneName(mode, number);
}

/**
 * @param {string} mode
 * @param {number} number
 */
const laneName = (mode, number) => (number === 1 ? mode : `${mode}~${number}`);

// ------------------------------------------------------------------------------------ comparisons

/** Whether the other runs of its race are compared with this run. */
export const isBaseline = (/** @type {Run} */ run) => run.mode.name === BASELINE;

/** Return the baseline of a run's race, if any. */
export const baselineOf = (/** @type {Run} */ run, /** @type {Record<string, Run>} */ runs) =>
  Object.values(runs).find((other) => isBaseline(other) && other.race === run.race) ?? null;

/**
 * Return the run whose answer a run's answer is compared with: the same mode and request in the first of
 * several races, or the baseline.
 */
export function counterpartOf(/** @type {Run} */ run, /** @type {Record<string, Run>} */ runs) {
  const isSame = (/** @type {Run} */ other) =>
    other.race.number === 0 &&
    other.race !== run.race &&
    other.mode === run.mode &&
    requestOf(other) === requestOf(run);
  const counterpart = Object.values(runs).find(isSame) ?? baselineOf(run, runs);
  return counterpart === run ? null : counterpart;
}

/** @param {Run} run */
const requestOf = ({ settings: { prompt, messages } }) =>
  JSON.stringify([messages.map(({ role, content }) => [role, content]), prompt]);

/** Return the runs other than baselines, in order; the baselines if there are no others. */
export function compared(/** @type {Record<string, Run>} */ runs) {
  const others = inOrder(runs).filter((run) => !isBaseline(run));
  return others.length ? others : inOrder(runs);
}
