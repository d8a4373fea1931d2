// What a run's record says: states of slots, settings and scores in words.

import { forcedBefore, isForced } from "../acceptance.js";
import { constants } from "../component.js";
import { percent, plural, tauText, visible } from "../words.js";

/** @typedef {import("./run.js").Run} Run */
/** @typedef {import("../record.js").Pass} Pass */

const HUES = 6; // in stage.css

/** Give a node the colour of a forward. */
export const colour = (/** @type {any} */ node, /** @type {Pass} */ { pass }) =>
  node.style.setProperty("--hue", `var(--hue-${pass % HUES})`);

/**
 * Whether a slot is the accepted end token.
 * @param {Pass} pass
 * @param {number} index
 */
export const isEnd = (pass, index) => pass.stop === "eos" && index === pass.accepted - 1;

/** Return the text of a slot as the page shows it. */
export const candidate = (/** @type {Pass} */ pass, /** @type {number} */ index) =>
  isEnd(pass, index) ? "end" : visible(pass.slots[index].text) || "…";

/** Whether a slot is an n-gram draft, which has its own mark wherever it is shown. */
export const isCopy = (/** @type {{ source?: string }} */ { source }) => source === "copy";

/**
 * Return the number of a slot as the model counts: tokens that a grammar forces before the first forward come
 * before its slots.
 * @param {Pass} pass
 * @param {number} index
 */
export const slotNumber = (pass, index) => index + 1 - forcedBefore(pass);

/** Return a slot's source as a sentence; empty if it is not recorded. */
export const sourceText = (/** @type {{ source?: string }} */ { source }) =>
  source ? `Source: ${source} (${constants.sources[source]}).` : "";

/**
 * Return the state of a slot after its pass, a key of `STATES` in window.js.
 * @param {Run} run
 * @param {number} number
 * @param {number} index
 */
export function stateOf(run, number, index) {
  const pass = run.passes[number];
  if (index < pass.accepted) return isForced(pass.slots[index]) ? "forced" : "accepted";
  if (pass.stop) return "unread";
  const { beyond } = run.mode;
  if (beyond === "draft") return "draft";
  if (beyond === "filled") return run.filled[number][index] ? "filled" : "unread";
  return index === pass.accepted ? "rejected" : "unread";
}

/** Whether a run's record can be evaluated at another τ: if it accepts slots from left to right. */
export const allowsOtherTau = (/** @type {Run} */ { mode }) => mode.uses_tau && mode.beyond === "unread";

/** @type {Record<string, string>} */
const SHAPES = { json: "JSON", choice: "choices", regex: "pattern", lark: "grammar" };

/** Return a run's settings in words, with the current τ. */
export function describe(/** @type {Run} */ { mode, settings }, /** @type {number} */ tau) {
  const verifies = mode.beyond === "draft" || mode.needs_draft;
  const slots = `${settings.costs ? "up to " : ""}${plural(settings.window, "slot")}`;
  const size = verifies ? `up to ${plural(settings.window - 1, "draft")}` : slots;
  const criterion = isConfidence(settings) ? "" : ` (${settings.criterion})`;
  const threshold = mode.uses_tau ? `τ ${tauText(tau)}${criterion}, ` : "";
  const { sampling } = settings;
  const shape = settings.grammar ? `, ${SHAPES[settings.grammar.kind]}` : "";
  return threshold + size + (sampling ? `, temperature ${sampling.temperature ?? 1}` : "") + shape;
}

/** The paper calls the probability of a token its confidence; other criteria keep their names. */
const isConfidence = (/** @type {{ criterion: string }} */ { criterion }) => criterion === "probability";

/** @param {Run} run */
export const scoreName = ({ settings }) =>
  isConfidence(settings) ? "confidence" : `score (${settings.criterion})`;

export const scoreText = (/** @type {Run} */ { settings }, /** @type {number} */ score) =>
  isConfidence(settings) ? percent(score) : (Math.floor(score * 1e4) / 1e4).toFixed(4);

/**
 * Return the earlier predictions of the answer's token `at`, the first one first. `number` and `slot` count
 * from 1.
 */
export function earlierGuesses(/** @type {Run} */ run, /** @type {number} */ at) {
  const own = run.placeOf(at)?.pass ?? 0;
  return run.passes.slice(0, own).flatMap((pass, index) => {
    const slot = at - run.indexOf(index, 0);
    const guess = slot >= pass.accepted ? pass.slots[slot] : null;
    return guess ? [{ number: pass.pass, slot: slotNumber(pass, slot), guess }] : [];
  });
}

/** Return the index of the first difference of two answers; null if they are the same. */
export function firstDifference(/** @type {number[]} */ a, /** @type {number[]} */ b) {
  const length = Math.max(a.length, b.length);
  for (let index = 0; index < length; index++) if (a[index] !== b[index]) return index;
  return null;
}
