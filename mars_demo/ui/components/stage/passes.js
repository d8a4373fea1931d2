// What can be read from a run's record: states of slots, and settings and scores in words.

import { percent, plural, visible } from "../words.js";

export const HUES = 6; // as many as stage.css has

export const isEnd = (pass, index) => pass.stop === "eos" && index === pass.accepted - 1;
export const candidate = (pass, index) => (isEnd(pass, index) ? "end" : visible(pass.slots[index].text) || "…");

/** What a slot became, one of the states of `window.js`. */
export function stateOf(run, number, index) {
  const pass = run.passes[number];
  if (index < pass.accepted) return "accepted";
  if (pass.stop) return "unread";
  const { beyond } = run.mode;
  if (beyond === "draft") return "draft";
  if (beyond === "filled") return run.filled[number][index] ? "filled" : "unread";
  return index === pass.accepted ? "rejected" : "unread";
}

/** Whether another τ can be held against a run's record: where acceptance goes from left to right. */
export const asksWhatIf = ({ mode }) => mode.uses_tau && mode.beyond === "unread";

/** What a pass would have accepted at another τ: verified drafts and the token after them in any case. What it
 * did not reach is unknown to the record: an end token, say. */
export function acceptedAt(pass, tau) {
  const sure = (pass.verified ?? 0) + 1;
  const refused = pass.slots.findIndex((slot, index) => index >= sure && (slot.score < tau || tau >= 1));
  const accepted = refused < 0 ? pass.slots.length : refused;
  return pass.stop ? Math.min(accepted, pass.accepted) : accepted;
}

/** The group of masks that a pass kept: its number, or null if none saw exactly what was accepted. */
export function keptGroup(pass) {
  if (pass.groups === 1 && pass.drafts > 0) return pass.verified === pass.drafts ? 0 : null;
  return pass.verified;
}

/** A run's settings in words, with the τ of the moment. */
export function describe({ mode, settings }, tau) {
  const verifies = mode.beyond === "draft" || mode.needs_draft;
  const slots = `${settings.costs ? "up to " : ""}${plural(settings.window, "slot")}`;
  const size = verifies ? `up to ${plural(settings.window - 1, "draft")}` : slots;
  const criterion = isConfidence(settings) ? "" : ` (${settings.criterion})`;
  return mode.uses_tau ? `τ ${tau.toFixed(2)}${criterion}, ${size}` : size;
}

// The paper calls the probability of a token its confidence; any other criterion has its own name.
const isConfidence = ({ criterion }) => criterion === "probability";
export const scoreName = ({ settings }) => (isConfidence(settings) ? "confidence" : `score (${settings.criterion})`);
export const scoreText = ({ settings }, score) => (isConfidence(settings) ? percent(score) : (Math.floor(score * 1e4) / 1e4).toFixed(4));

/** What forwards had in the place of the answer's token `at` before one of them accepted it, the earliest first:
 * {number, slot, guess}, both counted from 1. */
export function earlierGuesses(run, at) {
  const own = run.placeOf(at)?.pass ?? 0;
  return run.passes.slice(0, own).flatMap((pass, index) => {
    const slot = at - run.indexOf(index, 0);
    const guess = slot >= pass.accepted ? pass.slots[slot] : null;
    return guess ? [{ number: pass.pass, slot: slot + 1, guess }] : [];
  });
}

/** The index of the first token in which two answers differ; null where they do not. */
export function firstDifference(a, b) {
  const length = Math.max(a.length, b.length);
  for (let index = 0; index < length; index++) if (a[index] !== b[index]) return index;
  return null;
}
