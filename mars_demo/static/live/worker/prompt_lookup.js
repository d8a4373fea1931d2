// N-gram drafts: the tokens that followed the last occurrence of the latest tokens, as in
// decoding/prompt_lookup.py.

/** @typedef {import("./reading.js").Reading} Reading */

const [SHORTEST, LONGEST] = [3, 8]; // tokens of a match
const REACHED = 0.25; // a draft ends where the chance that all its tokens are accepted falls below this
const LONGEST_NGRAM_DRAFT = 16; // tokens

/** An n-gram index of a text, with a constant cost per token. */
class Lookup {
  /** @param {number[]} ids */
  constructor(ids) {
    /** @type {number[]} */
    this.ids = [];
    /** @type {Map<string, number>} */
    this.after = new Map(); // the position after the last occurrence of each n-gram
    this.extend(ids);
  }

  /** Append tokens to the text. */
  extend(/** @type {number[]} */ ids) {
    for (const token of ids) {
      const end = this.ids.length;
      for (let n = SHORTEST; n <= Math.min(LONGEST, end); n++) this.after.set(this.#latest(n), end);
      this.ids.push(token);
    }
  }

  /** Return the length of the longest match of the latest tokens, 0 without one, and the position after it. */
  find() {
    for (let n = Math.min(LONGEST, this.ids.length); n >= SHORTEST; n--) {
      const place = this.after.get(this.#latest(n));
      if (place !== undefined) return { match: n, place };
    }
    return { match: 0, place: 0 };
  }

  /** Return `count` tokens from `place` on; at the end of the text, start again at `place`. */
  follow(/** @type {number} */ place, /** @type {number} */ count) {
    const length = Math.min(count, this.ids.length - place);
    return Array.from({ length: count }, (_, index) => this.ids[place + (index % length)]);
  }

  /** @param {number} n */
  #latest(n) {
    return this.ids.slice(-n).join();
  }
}

/** A chooser between n-gram drafts and the drafts that masks predicted, forward by forward. */
export class PromptLookup {
  #match = 0; // length of the match of the n-gram draft that the last forward verified
  // Verified and accepted tokens by match length.
  #tried = Array(LONGEST + 1).fill(0);
  #accepted = Array(LONGEST + 1).fill(0);

  /** @param {number[]} promptIds */
  constructor(promptIds) {
    this.text = new Lookup(promptIds);
  }

  /**
   * Return the draft with the most expected accepted tokens for the next forward.
   * @param {Reading[]} accepted the tokens that this forward adds: accepted drafts and the model's own next
   *   token
   * @param {Reading[]} masked the masks' predictions after them
   * @param {number} sent the number of draft tokens that this forward verified
   */
  nextDraft(accepted, masked, sent) {
    if (this.#match) {
      const verified = accepted.length - 1;
      this.#accepted[this.#match] += verified;
      this.#tried[this.#match] += Math.min(verified + 1, sent);
    }
    this.text.extend(accepted.map(({ token }) => token));
    const { match, copy } = this.#copy();
    const isChosen = expected(copy) > expected(masked);
    this.#match = isChosen ? match : 0;
    return isChosen ? copy : masked;
  }

  /**
   * Return the length of a match and an n-gram draft, as long as acceptance is likely enough.
   * @returns {{ match: number, copy: Reading[] }}
   */
  #copy() {
    const { match, place } = this.text.find();
    if (!match) return { match, copy: [] };
    // A prior of n accepted in n + 2 after a match of n tokens, updated as the answer grows.
    const chance = (match + this.#accepted[match]) / (match + 2 + this.#tried[match]);
    let count = 0;
    for (let reached = chance; reached >= REACHED && count < LONGEST_NGRAM_DRAFT; reached *= chance)
      count++;
    const copy = this.text
      .follow(place, count)
      .map((token) => ({ token, score: chance, candidates: [], probabilities: [], source: "copy" }));
    return { match, copy };
  }
}

/** Return the expected accepted tokens of a draft, with scores as conditional probabilities. */
function expected(/** @type {Reading[]} */ draft) {
  let [sum, reached] = [0, 1];
  for (const { score } of draft) sum += reached *= score;
  return sum;
}
