// A fair race of several modes on one prompt: each run's clock counts its own forwards only, and the run
// whose clock is behind takes the next one, as in mars_demo/ui/racing.py.

import { line } from "../../../show/components/record.js";
import { Answer } from "./answer.js";
import { drive, lossless, verification, windowStrategy } from "./decoding.js";
import { Pace } from "./pace.js";
import { read } from "./reading.js";
import { Refusal } from "./refusal.js";
import { Run } from "./run.js";

/**
 * @typedef {import("./decoding.js").Engine} Engine
 * @typedef {import("./engine.js").Description} Description
 * @typedef {import("./knobs.js").Knobs} Knobs
 * @typedef {import("./pace.js").Costs} Costs
 * @typedef {import("./tokens.js").Tokens} Tokens
 */

/**
 * A loaded model.
 * @typedef {object} Model
 * @property {Description} description
 * @property {Pick<Tokens, "encodePrompt" | "decode" | "name">} tokens
 * @property {() => Engine} newEngine return an engine with an empty KV cache
 * @property {Costs} costs of its forwards
 */

/**
 * @typedef {object} RaceRequest
 * @property {string} prompt
 * @property {string[]} modes
 * @property {number} maxNewTokens
 * @property {boolean} [adaptive] whether windows adapt to the costs of forwards
 */

/** @typedef {{ strategy: typeof lossless, usesTau: boolean, window: (largest: number) => number }} Mode */

/** @type {Record<string, Mode>} */
const MODES = {
  ar: { strategy: windowStrategy, usesTau: false, window: () => 1 },
  mars: { strategy: windowStrategy, usesTau: true, window: (largest) => largest },
  lossless: { strategy: lossless, usesTau: false, window: (largest) => largest },
};
const WARM = 2; // forwards after a pause, as in the app

/**
 * Race; yield JSON lines with their lanes, the names of the modes: the first lines of all runs, a line per
 * forward, and the last line of each run.
 *
 * The race ends early once it is stopped, or when a run throws, whose error is passed on after the last
 * lines. Messages to this thread are handled between forwards.
 * @param {Model} model
 * @param {RaceRequest} request
 * @param {Knobs} knobs
 */
export async function* race(model, request, knobs) {
  const runs = prepare(model, request, knobs);
  /** @type {{ error: unknown } | null} */
  let failure = null;
  /** @type {Engine | undefined} */
  let spare;
  for (const [lane, run] of runs) yield line(lane, run.settings);
  try {
    while (runs.size && !knobs.stopped) {
      const [lane, run] = [...runs].reduce((one, other) => (other[1].ms < one[1].ms ? other : one));
      const pass = await run.step();
      yield line(lane, pass);
      if (run.stop) {
        yield line(lane, run.closing);
        runs.delete(lane);
      }
      if (!(await knobs.pause(pass.ms)) || knobs.stopped) continue;
      spare ??= model.newEngine();
      await warm(spare);
    }
  } catch (error) {
    failure = { error };
  }
  for (const [lane, run] of runs) {
    run.stop = "stopped";
    yield line(lane, run.closing);
  }
  if (failure) throw failure.error;
}

/** Compute forwards that no clock counts: after a pause, a processor's caches and threads are cold. */
async function warm(/** @type {Engine} */ engine) {
  for (let round = 0; round < WARM; round++) read(await engine.forward(verification([0], [], 0, 0), 0), 1);
}

/**
 * Return the runs of a race by their modes.
 * @param {Model} model
 * @param {RaceRequest} request
 * @param {Knobs} knobs
 */
function prepare({ description, tokens, newEngine, costs }, request, knobs) {
  const { prompt, modes, maxNewTokens, adaptive } = request;
  check(prompt);
  const promptIds = tokens.encodePrompt(prompt);
  const room = description.context - promptIds.length;
  if (room < 1)
    throw new Refusal(
      `The prompt has ${promptIds.length} tokens; ${description.name} can read at most ` +
        `${description.context - 1}.`,
    );
  const lanes = modes.map((name) => {
    const mode = MODES[name];
    const [window, tau] = [mode.window(description.window), () => (mode.usesTau ? knobs.tau : null)];
    const answer = new Answer(tokens, new Set(description.end_ids), Math.min(maxNewTokens, room));
    const pace = new Pace(name, window, adaptive ? costs : null);
    const strategy = mode.strategy(answer, promptIds, { pace, tau, maskId: description.mask_id });
    const settings = {
      mode: name,
      model: description.name,
      window,
      block_size: description.block_size,
      tau: tau(),
      prompt,
      prompt_tokens: promptIds.length,
      device: "wasm",
      dtype: description.dtype,
      max_new_tokens: maxNewTokens,
      criterion: "probability",
      costs: pace.costs ?? undefined,
      run: randomHex(),
      schema: 2,
      raw: description.raw || undefined,
    };
    return /** @type {const} */ ([name, new Run(settings, drive(newEngine(), strategy))]);
  });
  return new Map(lanes);
}

/** Throw a sentence if a prompt is not valid. The page's controls have valid values only. */
function check(/** @type {string} */ prompt) {
  if (!prompt.trim()) throw new Refusal("The prompt is empty; write something for the model to answer.");
  if (/\p{Surrogate}/u.test(prompt))
    throw new Refusal("The prompt contains half of a character (a lone surrogate).");
}

/** Return 8 random hex digits. */
function randomHex() {
  const [number] = crypto.getRandomValues(new Uint32Array(1));
  return number.toString(16).padStart(8, "0");
}
