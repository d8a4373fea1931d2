// @ts-check
// The JSON lines of a run, as in decoding/trace.py: its settings, a line per forward, and a closing line.

/**
 * A position that a forward predicted.
 * @typedef {object} Slot
 * @property {number} id
 * @property {string} text
 * @property {number} score
 * @property {(readonly [text: string, probability: number])[]} top
 * @property {string} source
 * @property {number[]} candidates the ids of `top`
 */

/**
 * One forward of the model and its accepted slots.
 * @typedef {object} Pass
 * @property {number} pass counted from 1
 * @property {number | null} tau
 * @property {number} positions
 * @property {number} ms
 * @property {number} accepted
 * @property {Slot[]} slots
 * @property {string | null} stop
 * @property {number} [drafts]
 * @property {number} [verified]
 * @property {number} [groups]
 * @property {number} [model_ms]
 * @property {number} [read_ms]
 */

/**
 * The first line of a run.
 * @typedef {object} Settings
 * @property {string} mode
 * @property {string} model
 * @property {number} window
 * @property {number | null} block_size
 * @property {number | null} tau
 * @property {string} prompt
 * @property {number} prompt_tokens
 * @property {string} device
 * @property {string} dtype
 * @property {number} max_new_tokens
 * @property {string} criterion
 * @property {string} run
 * @property {2} schema
 * @property {true} [raw] whether the prompt was used without a chat template
 */

/**
 * @param {number} number
 * @param {number} digits
 */
const rounded = (number, digits) => Number(number.toFixed(digits));

/** @param {number} score */
const scoreOf = (score) => rounded(score, 6);

/** @param {number} ms */
const msOf = (ms) => rounded(ms, 3);

/** @param {number | undefined} ms */
const partOf = (ms) => (ms === undefined ? ms : msOf(ms));

/** A running or finished answer: its settings, and what its closing line counts. */
export class Run {
  /** @type {string | null} */
  stop = null;
  tokens = 0;
  forwards = 0;
  ms = 0; // its own forwards
  #written = 0; // the sum of the rounded times

  /**
   * @param {Settings} settings
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
    this.#written += msOf(pass.ms);
    return pass;
  }

  /** Free the resources of the run. */
  async close() {
    await this.passes.return();
  }

  /** @param {string} lane */
  firstLine(lane) {
    return line(lane, this.settings);
  }

  /** @param {string} lane */
  lastLine(lane) {
    const { tokens, forwards, stop } = this;
    return line(lane, { tokens, forwards, seconds: rounded(this.#written / 1000, 4), stop, done: true });
  }
}

/**
 * Return the line of a pass.
 * @param {string} lane
 * @param {Pass} pass
 */
export function passLine(lane, pass) {
  const { pass: number, tau, positions, ms, accepted, slots, stop, drafts, verified, groups } = pass;
  return line(lane, {
    pass: number,
    tau,
    positions,
    ms: msOf(ms),
    accepted,
    slots: slots.map(written),
    stop,
    drafts,
    verified,
    groups,
    model_ms: partOf(pass.model_ms),
    read_ms: partOf(pass.read_ms),
  });
}

/** @param {Slot} slot */
const written = ({ id, text, score, top, source, candidates }) => ({
  id,
  text,
  score: scoreOf(score),
  top: top.map(([name, probability]) => [name, scoreOf(probability)]),
  source,
  candidates: candidates.length ? candidates : undefined,
});

/**
 * Return a JSON line; fields that are undefined are left out.
 * @param {string} lane
 * @param {object} record
 */
const line = (lane, record) => `${JSON.stringify({ lane, ...record })}\n`;

/** Return 8 random hex digits. */
export function randomHex() {
  const [number] = crypto.getRandomValues(new Uint32Array(1));
  return number.toString(16).padStart(8, "0");
}
