// Branches: runs that continue an answer from another token, in a new lane or in place of the original one.
// The branches since the race are steps [lane, token, instead, replaces], which the URL repeats: `instead`
// is a list of one token id or a text, `replaces` is 1 or 0.

import { constants, trigger } from "../component.js";
import { inOrder } from "./modes.js";
import { stage } from "./state.js";

const LONGEST = 1500; // characters of the steps in the URL

/** @typedef {[lane: string, at: number, instead: number[] | string, replaces: 0 | 1]} Step */

/** @type {{ steps: Step[], recording: string | null, isQueued?: boolean } | null} */
let pending = null; // the requested branch until it begins
/** @type {Step[]} */
const waiting = []; // the steps of the URL that have not been taken yet

/** Whether a server can run branches. */
export const canBranch = () => constants.main;

/** Request a branch. Throw a sentence while a race runs. */
export function branchOff(lane, at, instead, replaces, isQueued = false) {
  const { reader } = stage;
  const run = reader.runs[lane];
  if (!reader.over) throw new Error("A race is running: stop it, or wait until it ends.");
  if (!run) throw new Error(`No lane ${lane} on the stage.`);
  const lanes = inOrder(reader.runs)
    .filter(({ race }) => race === run.race)
    .map((one) => one.lane);
  pending = {
    steps: [...stage.steps, [lane, at, instead, replaces ? 1 : 0]],
    recording: stage.recording,
    isQueued,
  };
  trigger("branch", {
    records: lanes.map((name) => reader.texts[name]),
    of: lanes.indexOf(lane),
    at,
    instead,
    replace: Boolean(replaces),
  });
}

/** Return whether a new record from the server is the requested branch. */
export function settleBranch() {
  const requested = pending;
  pending = null;
  const branched = requested && Object.values(stage.reader.runs).some(({ branch }) => branch);
  if (branched) Object.assign(stage, { steps: requested.steps, recording: requested.recording });
  return Boolean(branched);
}

// ---------------------------------------------------------------------------------------- the URL

export const written = (steps) => {
  const text = steps.length ? JSON.stringify(steps) : "";
  return text && text.length <= LONGEST ? text : null;
};

/** Queue the steps of the URL, which are taken one by one after its race. */
export function queueSteps(text) {
  try {
    const steps = JSON.parse(text ?? "[]");
    if (Array.isArray(steps))
      waiting.push(
        ...steps.filter((step) => Array.isArray(step) && step.length === 4).slice(0, constants.lanes),
      );
  } catch {
    // invalid steps are ignored
  }
}

/** Take the next queued step, if any. */
export function takeStep() {
  const step = canBranch() && waiting.shift();
  if (!step) return;
  branchOff(...step, true);
}

/** Whether steps of the URL are queued or running. */
export const hasQueuedSteps = () => waiting.length > 0 || Boolean(pending?.isQueued);
export const clearSteps = () => void waiting.splice(0);
