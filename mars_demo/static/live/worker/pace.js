// The pace of an answer: the masks of each forward, from the costs of forwards and past acceptance, as in
// decoding/pace.py for the linear layout.

import { fixed } from "../../../show/components/words.js";
import { verification } from "./decoding.js";
import { read } from "./reading.js";

/**
 * @typedef {import("./decoding.js").Engine} Engine
 * @typedef {[positions: number, ms: number][]} Costs of measured forwards
 */

const CONTEXT = 64; // cached positions before a measured forward
const ROUNDS = 10; // measured forwards of each size
const STEPS = 50; // slopes are rounded to multiples of 1 / STEPS
const MEMORY = 0.95; // decay of past acceptance per forward; so a narrow window is widened again now and then

// ------------------------------------------------------------------------------- costs of forwards

/**
 * Return the costs of a model's forwards: of 1, half of, and all positions of a block.
 *
 * Each is the shortest of its rounds: in a browser that has just loaded a model, other work makes many
 * forwards several times as long.
 * @param {Engine} engine with an empty KV cache
 * @param {number} masks of a block
 * @returns {Promise<Costs>}
 */
export async function measured(engine, masks) {
  const sizes = [1, 1 + (masks >> 1), 1 + masks];
  await milliseconds(engine, CONTEXT, 0, CONTEXT);
  const shortest = sizes.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++)
    for (const [index, size] of sizes.entries())
      shortest[index] = Math.min(shortest[index], await milliseconds(engine, size, CONTEXT));
  return sizes.map((size, index) => [size, shortest[index]]);
}

/** Return the time to compute and read a forward, of which `keep` positions stay cached. */
async function milliseconds(
  /** @type {Engine} */ engine,
  /** @type {number} */ positions,
  /** @type {number} */ past,
  keep = 0,
) {
  const started = performance.now();
  read(await engine.forward(verification([0], [], positions - 1, 0, past), 0), positions);
  engine.commit(keep);
  return performance.now() - started;
}

/**
 * Return the cost of k positions relative to 1: the line through the measured costs.
 *
 * Its slope is rounded to a multiple of 1 / `STEPS`, so that noise seldom changes an answer.
 * @param {Costs} costs
 */
export function costOf(costs) {
  const [positions, ms] = [0, 1].map((column) => mean(costs.map((cost) => cost[column])));
  const slope =
    mean(costs.map(([k, cost]) => (k - positions) * (cost - ms))) /
    mean(costs.map(([k]) => (k - positions) ** 2));
  const rounded = Number(fixed(STEPS * Math.max(0, slope / costs[0][1]), 0)) / STEPS;
  return (/** @type {number} */ k) => 1 + rounded * (k - 1);
}

const mean = (/** @type {number[]} */ values) => values.reduce((sum, one) => sum + one, 0) / values.length;

// ------------------------------------------------------------------------ expected tokens per time

/** @typedef {(slots: number, rate: number, cost: (positions: number) => number) => number} Speed */

/** Return the tokens of a forward whose slots are accepted with probability `rate` after accepted ones. */
function tokensOf(/** @type {number} */ slots, /** @type {number} */ rate) {
  let tokens = 0;
  for (let place = 0; place < slots; place++) tokens += rate ** place;
  return tokens;
}

/**
 * Return the speed of `mars`, which computes its masks and the previously accepted tokens.
 * @type {Speed}
 */
export function ofWindow(slots, rate, cost) {
  const tokens = tokensOf(slots, rate);
  return tokens / cost(slots - 1 + tokens);
}

/**
 * Return the speed of `lossless`. A rejected draft leaves no drafts for the next forward, which accepts one
 * token.
 * @type {Speed}
 */
export function ofLossless(slots, rate, cost) {
  const rejected = 1 - rate ** (slots - 1);
  return (tokensOf(slots, rate) + rejected) / (cost(2 * slots - 1) + rejected * cost(slots));
}

// --------------------------------------------------------------------------------------- an answer

/**
 * The expected speed of each mode, and the slots that count as accepted and decided before an answer begins.
 * @type {Record<string, { speed: Speed, accepted: number, decided: number }>}
 */
const PRIORS = {
  mars: { speed: ofWindow, accepted: 1, decided: 2 },
  lossless: { speed: ofLossless, accepted: 4, decided: 5 },
};

/**
 * The pace of one answer: its forwards have the masks of the window with the highest expected speed, given
 * the acceptance so far, or without costs those of the largest window.
 */
export class Pace {
  #accepted = 0;
  #decided = 0;

  /**
   * @param {string} mode
   * @param {number} largest slots of a forward
   * @param {Costs | null} costs
   */
  constructor(mode, largest, costs) {
    this.prior = PRIORS[mode];
    this.largest = largest;
    this.costs = this.prior ? costs : null;
    this.cost = this.costs && costOf(this.costs);
  }

  get masks() {
    if (!this.cost) return this.largest - 1;
    const { speed, accepted, decided } = this.prior;
    const rate = (this.#accepted + accepted) / (this.#decided + decided);
    let [best, slots] = [0, 1];
    for (let other = 1; other <= this.largest; other++) {
      const expected = speed(other, rate, this.cost);
      if (expected > best) [best, slots] = [expected, other];
    }
    return slots - 1;
  }

  /** Learn from a forward how many of the masks or drafts that it sent were accepted. */
  saw(/** @type {number} */ accepted, /** @type {number} */ sent) {
    this.#accepted = MEMORY * this.#accepted + accepted;
    this.#decided = MEMORY * this.#decided + Math.min(accepted + 1, sent);
  }
}
