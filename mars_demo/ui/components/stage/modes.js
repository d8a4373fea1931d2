// The table of modes, which Python hands over: titles, their order on the stage, and how each is drawn. A lane is called
// like the mode of its run; a second run of that mode on the same stage is `mode~2`, and so on.

import { constants } from "../component.js";

export const modes = new Map(constants.modes.map((mode) => [mode.name, mode]));
export const BASELINE = constants.modes[0].name; // what the others are compared with

const order = [...modes.keys()];
const placeOf = (lane) => {
  const [mode, number = 1] = lane.split("~");
  return [order.indexOf(mode), Number(number)];
};

/** What is kept by lane, in the order of the lanes. */
export function inOrder(byLane) {
  const lanes = Object.keys(byLane).map((lane) => [lane, ...placeOf(lane)]);
  return lanes.sort(([, a, m], [, b, n]) => a - b || m - n).map(([lane]) => byLane[lane]);
}

/** The lane of one more run of a mode. */
export function freeLane(mode, byLane) {
  let number = 1;
  while (laneName(mode, number) in byLane) number++;
  return laneName(mode, number);
}

const laneName = (mode, number) => (number === 1 ? mode : `${mode}~${number}`);

// -------------------------------------------------------------------- whom a run is compared with

/** Whether it is what the other runs of its race are compared with. */
export const isBaseline = (run) => run.mode.name === BASELINE && !run.branch;

/** The baseline of a run's race, if there is one. */
export const baselineOf = (run, runs) => Object.values(runs).find((other) => isBaseline(other) && other.race === run.race) ?? null;

/** The run that a branch leaves, if it is on the stage. */
export const originOf = (run, runs) => (run.branch && Object.values(runs).find(({ settings }) => settings.run === run.branch.of)) || null;

/** What a run's answer is held against: that which it branches from, the same mode in the first of several races on
 * the same prompt, or the baseline. */
export function counterpartOf(run, runs) {
  const sameMode = (other) => other.race !== run.race && other.mode === run.mode && asked(other) === asked(run);
  const elsewhere = run.race.number ? Object.values(runs).find((other) => other.race.number === 0 && sameMode(other)) : null;
  const found = originOf(run, runs) ?? elsewhere ?? baselineOf(run, runs);
  return found === run ? null : found;
}

const asked = ({ settings: { prompt, messages } }) => JSON.stringify([messages.map(({ role, content }) => [role, content]), prompt]);

/** All but the baselines, in order; where there is nothing else, these. */
export function compared(runs) {
  const others = inOrder(runs).filter((run) => !isBaseline(run));
  return others.length ? others : inOrder(runs);
}
