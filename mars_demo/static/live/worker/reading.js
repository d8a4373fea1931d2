// Readings of logits: the chosen token of each slot, its score and the alternatives, as in decoding/reading.py.

/**
 * The reading of a slot: its token, score, and candidates, best first, with their probabilities.
 * @typedef {object} Reading
 * @property {number} token
 * @property {number} score its probability
 * @property {number[]} candidates
 * @property {number[]} probabilities
 * @property {string} source the source of the token, one of `fields.SOURCES`
 */

const ALTERNATIVES = 5; // candidates recorded for each slot

/**
 * Return the readings with another source.
 * @param {Reading[]} readings
 * @param {string} source
 */
export const marked = (readings, source) => readings.map((reading) => ({ ...reading, source }));

/**
 * Return a reading per slot of logits [slots, vocabulary], greedily.
 * @param {Float32Array} logits
 * @param {number} slots
 */
export function read(logits, slots) {
  const vocabulary = logits.length / slots;
  return Array.from({ length: slots }, (_, slot) =>
    measure(logits.subarray(slot * vocabulary, (slot + 1) * vocabulary)),
  );
}

/**
 * Return the reading of one slot.
 * @param {Float32Array} logits
 * @returns {Reading}
 */
function measure(logits) {
  const candidates = largest(logits, ALTERNATIVES);
  const [token] = candidates;
  const most = logits[token]; // subtracted, so that no exponential overflows
  let total = 0;
  for (const logit of logits) total += Math.exp(logit - most);
  if (!(total > 0)) throw new Error("The model computed values that are not numbers.");
  const probabilities = candidates.map((candidate) => Math.exp(logits[candidate] - most) / total);
  return { token, score: probabilities[0], candidates, probabilities, source: "model" };
}

/** Return the indices of the largest values, largest first; of equal values the first one. */
export function largest(/** @type {Float32Array} */ values, /** @type {number} */ count) {
  /** @type {number[]} */
  const best = [];
  for (let index = 0; index < values.length; index++) {
    if (best.length === count && !(values[index] > values[best[count - 1]])) continue;
    let place = Math.min(best.length, count - 1);
    for (; place > 0 && values[index] > values[best[place - 1]]; place--) best[place] = best[place - 1];
    best[place] = index;
  }
  return best;
}
