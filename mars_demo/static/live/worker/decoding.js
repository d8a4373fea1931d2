// The decoding loop: AR, MARS and lossless MARS, as in mars_demo/decoding. A strategy is
// a generator that asks for a forward, receives its readings, and answers with a pass.

import { accepted, countVerified, several } from "../../../show/components/acceptance.js";
import { PromptLookup } from "./prompt_lookup.js";
import { marked, read } from "./reading.js";

/**
 * @typedef {import("./answer.js").Answer} Answer
 * @typedef {import("./pace.js").Pace} Pace
 * @typedef {import("./reading.js").Reading} Reading
 * @typedef {import("../../../show/components/record.js").Pass} Pass
 */

/**
 * The inputs of one forward over `ids` after `past` cached positions.
 * @typedef {object} Layout
 * @property {number[]} ids
 * @property {number[]} positions position ids, counted from the start of the text
 * @property {number} past
 * @property {number[]} visible the number of leading columns that each position attends to; columns
 *   0 … past - 1 are the cached positions, the others the new ones
 */

/**
 * The settings of a run.
 * @typedef {object} Request
 * @property {Pace} pace the masks of each forward
 * @property {() => number | null} tau the threshold, read again at each forward; null accepts one slot
 * @property {number} maskId
 */

/**
 * @typedef {{ layout: Layout, first: number }} Forward a request for a forward, with readings from `first` on
 * @typedef {{ step: Pass, keep: number }} Outcome its pass, and the number of its positions that stay cached
 * @typedef {Generator<Forward | Outcome, void, any>} Strategy it receives readings after a forward, and nothing after an outcome
 */

/**
 * A model with the cached positions of one text.
 * @typedef {object} Engine
 * @property {(layout: Layout, first: number) => Promise<Float32Array>} forward return the logits
 *   [n - first, vocabulary]
 * @property {(count: number) => void} commit keep the first `count` positions of the last forward
 */

// ------------------------------------------------------------------------------------------ layouts

/**
 * Return the linear layout `[tokens, d1 … dK, MASK × masks]`: drafts to verify, and masks after all of them.
 * Each position attends to itself and all positions before it. Without drafts it is the sliding window of
 * MARS (section 3.3): the last token predicts slot 1, the i-th mask slot i + 1.
 * @param {number[]} tokens
 * @param {number[]} drafts
 * @param {number} masks
 * @param {number} maskId
 * @returns {Layout}
 */
export function verification(tokens, drafts, masks, maskId, past = 0) {
  const ids = [...tokens, ...drafts, ...Array(masks).fill(maskId)];
  const positions = ids.map((_, index) => past + index);
  return { ids, positions, past, visible: positions.map((position) => position + 1) };
}

// --------------------------------------------------------------------------------------- strategies

/**
 * Compute the newly accepted tokens and masks in each forward; AR is the case without masks.
 *
 * Masks never stay in the cache. The last real token predicts slot 1, which is always accepted. At τ = 1 no
 * other slot can be accepted, so there are no masks.
 * @param {Answer} answer
 * @param {number[]} promptIds
 * @param {Request} request
 * @returns {Strategy}
 */
export function* windowStrategy(answer, promptIds, { pace, tau, maskId }) {
  let [added, past] = [promptIds, 0];
  while (!answer.stop) {
    answer.begin();
    const threshold = tau();
    // Do not compute slots that cannot be accepted.
    const masks = several(threshold) ? Math.min(pace.masks, answer.room - 1) : 0;
    const layout = verification(added, [], masks, maskId, past);
    /** @type {Reading[]} */
    const readings = yield { layout, first: added.length - 1 };
    const scores = readings.map(({ score }) => score);
    const count = accepted(scores, threshold);
    pace.saw(count - 1, masks);
    const step = answer.step([readings[0], ...marked(readings.slice(1), "mask")], count, {
      positions: layout.ids.length,
      tau: threshold,
    });
    yield { step, keep: added.length };
    past += added.length;
    added = answer.ids.slice(-step.accepted);
  }
}

/**
 * Verify the window's predictions, or n-gram drafts, in the next forward.
 *
 * The answer equals that of `ar`. A forward over `[token, d1 … dK, masks]` compares each draft with the
 * model's own choice at its position. If n drafts are accepted, the model's next token is accepted too. If
 * all are, the next drafts are read from the masks, unless `PromptLookup` finds better ones. A pass records
 * accepted slots and, after them, the drafts for the next pass.
 * @param {Answer} answer
 * @param {number[]} promptIds
 * @param {Request} request
 * @returns {Strategy}
 */
export function* lossless(answer, promptIds, { pace, maskId }) {
  const lookup = new PromptLookup(promptIds);
  /** @type {Reading[]} */
  let draft = [];
  let past = 0;
  let fresh = promptIds;
  let room = answer.room - 1;
  while (!answer.stop) {
    answer.begin();
    const masks = Math.max(0, Math.min(pace.masks, room));
    const drafted = draft.map(({ token }) => token);
    const layout = verification(fresh, drafted, masks, maskId, past);
    /** @type {Reading[]} */
    const readings = yield { layout, first: fresh.length - 1 };
    const checked = draft.length;
    const own = readings.slice(0, checked + 1);
    const verified = countVerified(draft, own);
    if (draft[0]?.source === "mask") pace.saw(verified, checked);
    else pace.saw(0, 0);
    const slots = own.slice(0, verified).map((slot, place) => ({ ...slot, source: draft[place].source }));
    slots.push(own[verified]);
    // The masks come after all drafts: they predict the continuation only if all are accepted.
    const masked = verified < checked ? [] : marked(readings.slice(checked + 1), "mask");
    draft = lookup.nextDraft(slots, masked, checked);
    room = answer.room - slots.length - 1;
    draft = draft.slice(0, Math.max(0, room));
    const step = answer.step([...slots, ...draft], verified + 1, {
      positions: layout.ids.length,
      drafts: checked,
      verified,
      groups: masks ? 1 : 0,
    });
    yield { step, keep: fresh.length + verified };
    past += fresh.length + verified;
    fresh = answer.ids.slice(-1);
  }
}

// ------------------------------------------------------------------------------------------ driving

/**
 * Run one strategy on one engine, forward by forward, and yield its passes.
 * @param {Engine} engine
 * @param {Strategy} strategy
 * @returns {AsyncGenerator<Pass, void, void>}
 */
export async function* drive(engine, strategy) {
  for (const forward of strategy) {
    const { layout, first } = /** @type {Forward} */ (forward);
    const started = performance.now();
    const logits = await engine.forward(layout, first);
    const computed = performance.now();
    const readings = read(logits, layout.ids.length - first);
    const [model_ms, read_ms] = [computed - started, performance.now() - computed];
    const { step, keep } = /** @type {Outcome} */ (strategy.next(readings).value);
    engine.commit(keep);
    yield { ...step, model_ms, read_ms };
  }
}
