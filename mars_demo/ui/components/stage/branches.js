// Going on from another token of an answer: as a new lane, or in place of the lane that is left. What was done since the
// race is kept as steps [lane, token, instead, replaces], from which an address repeats it: `instead` is a list of one
// token id or a text, `replaces` 1 or 0.

import { constants, trigger } from "../component.js";
import { inOrder } from "./modes.js";
import { stage } from "./state.js";

const LONGEST = 1500; // characters of the steps in an address

let pending = null; // what was asked for and has not come yet: {steps, recording}
const waiting = []; // steps of the address that are still to be made

/** Whether there is a server that can go on. */
export const canBranch = () => constants.shelf;

/** Ask for one. Throws a sentence while something runs. */
export function branchOff(lane, at, instead, replaces) {
  const { reader } = stage;
  const run = reader.runs[lane];
  if (!reader.over) throw new Error("Something runs on the stage: stop it, or wait until it has ended.");
  if (!run) throw new Error(`There is no lane ${lane} on the stage.`);
  const lanes = inOrder(reader.runs).filter(({ race }) => race === run.race).map((one) => one.lane);
  pending = { steps: [...stage.steps, [lane, at, instead, replaces ? 1 : 0]], recording: stage.recording };
  trigger("branch", { records: lanes.map((name) => reader.texts[name]), of: lanes.indexOf(lane), at, instead, replace: Boolean(replaces) });
}

/** A new record has come from the server: whether it is the branch that was asked for. */
export function settleBranch() {
  const asked = pending;
  pending = null;
  const branched = asked && Object.values(stage.reader.runs).some(({ branch }) => branch);
  if (branched) Object.assign(stage, { steps: asked.steps, recording: asked.recording });
  return Boolean(branched);
}

// ------------------------------------------------------------------------------------ the address

export const written = (steps) => {
  const text = steps.length ? JSON.stringify(steps) : "";
  return text && text.length <= LONGEST ? text : null;
};

/** The steps that an address asks for, to be made one after the other once its race is there. */
export function wantSteps(text) {
  try {
    const steps = JSON.parse(text ?? "[]");
    if (Array.isArray(steps)) waiting.push(...steps.filter((step) => Array.isArray(step) && step.length === 4).slice(0, constants.lanes));
  } catch {
    // no steps
  }
}

/** The next of them, when the stage has nothing to do. */
export function nextStep() {
  const step = canBranch() && waiting.shift();
  if (!step) return;
  branchOff(...step);
  pending.isAddressed = true;
}

/** Whether the address asks for branches that are not there yet. */
export const hasSteps = () => waiting.length > 0 || Boolean(pending?.isAddressed);
export const forgetSteps = () => void waiting.splice(0);
