// Acceptance of slots, as in core/acceptance.py.

/** @typedef {import("./record.js").Pass} Pass */

/**
 * Return whether a forward can accept more than one slot; if not, it needs no masks.
 * @param {number | null} threshold
 * @returns {threshold is number}
 */
export const several = (threshold) => threshold !== null && threshold < 1;

/**
 * Return whether a threshold admits a score. A score of 1 does not pass τ = 1, which accepts one slot.
 * @param {number} score
 * @param {number | null} threshold
 */
export const admits = (score, threshold) => several(threshold) && score >= threshold;

/**
 * Return the number of accepted leading slots: the first `always`, then while the score is at least τ.
 * @param {number[]} scores
 * @param {number | null} threshold
 */
export const accepted = (scores, threshold, always = 1) =>
  Math.min(always, scores.length) + leading(scores.slice(always), (score) => admits(score, threshold));

/**
 * Return the number of leading drafts that equal the model's own choices.
 * @param {{ token: number }[]} drafts
 * @param {{ token: number }[]} own
 */
export const countVerified = (drafts, own) =>
  leading(drafts, ({ token }, place) => token === own[place].token);

/**
 * Return the number of leading items that pass a test.
 * @template T
 * @param {T[]} items
 * @param {(item: T, place: number) => boolean} test
 */
function leading(items, test) {
  const first = items.findIndex((item, place) => !test(item, place));
  return first < 0 ? items.length : first;
}

/** Whether a token is the only one that the grammar of the answer allowed. */
export const isForced = (/** @type {{ source?: string }} */ { source }) => source === "forced";

/**
 * Return the number of tokens that a grammar forced before a forward, which are part of the first pass; the
 * forward itself accepts at least one.
 * @param {Pass} pass
 */
export const forcedBefore = ({ pass, slots, accepted }) =>
  pass === 1 ? Math.max(0, Math.min(accepted - 1, leading(slots, isForced))) : 0;

/**
 * Return the number of tokens that a pass would have accepted at another τ, verified drafts and the token
 * after them included. Forced tokens need no τ. Beyond its slots the record is silent, for example about an
 * end token.
 * @param {Pass} pass
 * @param {number} tau
 */
export function acceptedAt(pass, tau) {
  const { slots, stop, verified = 0, accepted: own } = pass;
  const always = Math.min(forcedBefore(pass) + verified + 1, slots.length);
  const further = leading(slots.slice(always), (slot) => isForced(slot) || admits(slot.score, tau));
  return stop ? Math.min(always + further, own) : always + further;
}
