// A running or finished answer, as in core/trace.py.

/** @typedef {import("../../../show/components/record.js").Pass} Pass */

/** An answer with its settings, and what its closing line counts. */
export class Run {
  /** @type {string | null} */
  stop = null;
  tokens = 0;
  forwards = 0;
  ms = 0; // its own forwards

  /**
   * @param {object} settings the first line
   * @param {AsyncGenerator<Pass, void, void>} passes
   */
  constructor(settings, passes) {
    this.settings = settings;
    this.passes = passes;
  }

  /** Compute a forward and return its pass. */
  async step() {
    const { value } = await this.passes.next();
    const pass = /** @type {Pass} */ (value); // a run is not stepped after its end
    this.stop = pass.stop;
    this.tokens += pass.accepted;
    this.forwards++;
    this.ms += pass.ms;
    return pass;
  }

  /** The last line. */
  get closing() {
    const { tokens, forwards, ms, stop } = this;
    return { tokens, forwards, seconds: ms / 1000, stop, done: true };
  }
}
