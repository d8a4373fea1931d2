// A growing answer: its tokens, its text, and the record of each forward, as in decoding/answer.py.

/**
 * @typedef {import("./reading.js").Reading} Reading
 * @typedef {import("../../../show/components/record.js").Pass} Pass
 * @typedef {Pick<import("./tokens.js").Tokens, "decode" | "name">} Texts
 */

/** An answer so far: its tokens, its stop reason, and the text that can be shown. */
export class Answer {
  /** @type {number[]} */
  ids = [];
  /** @type {"eos" | "length" | null} */
  stop = null;
  #passes = 0;
  #started = 0;
  #shown = 0; // number of ids whose text has been returned
  #start = 0; // index of the first id of the decoding context
  #context = ""; // the returned text from `#start` on

  /**
   * @param {Texts} texts
   * @param {Set<number>} endIds
   * @param {number} limit the most tokens
   */
  constructor(texts, endIds, limit) {
    this.texts = texts;
    this.endIds = endIds;
    this.limit = limit;
  }

  /** The number of tokens that may still be added. */
  get room() {
    return this.limit - this.ids.length;
  }

  /** Start the clock of the next forward. */
  begin() {
    this.#started = performance.now();
  }

  /**
   * Accept the first `count` readings, fewer if the answer ends within them, and record the pass.
   * @param {Reading[]} readings
   * @param {number} count
   * @param {{ positions: number, tau?: number | null, drafts?: number, verified?: number, groups?: number }}
   *   fields further fields of the pass
   * @returns {Pass}
   */
  step(readings, count, { tau = null, ...counts }) {
    /** @type {string[]} */
    const texts = [];
    for (const { token } of readings.slice(0, count)) {
      this.ids.push(token);
      if (this.endIds.has(token)) this.stop = "eos";
      else if (!this.room) this.stop = "length";
      texts.push(this.#nextText());
      if (this.stop) break;
    }
    this.#passes++;
    const slots = readings.map(({ token, score, candidates, probabilities, source }, index) => ({
      id: token,
      text: texts[index] ?? this.texts.name(token),
      score,
      top: candidates.map(
        (id, place) => /** @type {const} */ ([this.texts.name(id), probabilities[place]]),
      ),
      source,
      candidates,
    }));
    const ms = performance.now() - this.#started;
    return { pass: this.#passes, tau, ms, accepted: texts.length, slots, stop: this.stop, ...counts };
  }

  /** Return the text that the latest token completes, up to the last complete character. */
  #nextText() {
    // With a few ids of context, because some tokenizers decode the first token differently.
    if (this.#shown - this.#start > 16) {
      this.#start = this.#shown - 4;
      this.#context = this.texts.decode(this.ids.slice(this.#start, this.#shown));
    }
    const text = this.texts.decode(this.ids.slice(this.#start));
    if (text.endsWith("\ufffd") && !this.stop) return "";
    const added = text.slice(this.#context.length);
    this.#context = text;
    this.#shown = this.ids.length;
    return added;
  }
}
