// Why a race gained little, or why its answer may be wrong: one sentence, from the numbers of its record.

import { fixed, plural, tauText } from "../words.js";
import { baselineOf, inOrder, isBaseline } from "./modes.js";
import { firstDifference, scoreName, scoreText, slotNumber } from "./passes.js";
import { costPoints, curveThrough, predicted, slotsOf, timesOf } from "./speed.js";

/** @typedef {import("./run.js").Run} Run */

/**
 * `sentence` explains the result; `offers` says whether other prompts would show more.
 * @typedef {{ sentence: string, offers: boolean }} Cause
 */

const LITTLE = 1.2; // the least speed-up that counts as a gain
const FEW = 1.5; // the least tokens per forward that count as a gain in forwards
const MOST = 0.5; // the least share that counts as most of a whole
const LOOP = /(.{24,}?)\1\1/su; // as in training/distillation.py: a passage three times in a row
const SEARCHED = 4000; // characters at the end of an answer: the time grows with their square

/** @type {WeakMap<Run, boolean>} */
const loops = new WeakMap();

/** Whether a passage of a finished run's answer repeats three times in a row. */
export function isLoop(/** @type {Run} */ run) {
  const repeats = loops.get(run) ?? LOOP.test(run.text.slice(-SEARCHED));
  loops.set(run, repeats);
  return repeats;
}

/** The checks of a run and its baseline, the most important one first. */
const CHECKS = [looping, differing, gainless, copying];

/**
 * Return the most important cause among the runs of a finished race; null if there is nothing to explain.
 * @param {Record<string, Run>} runs by lane
 * @returns {Cause | null}
 */
export function causeOf(runs) {
  const all = inOrder(runs);
  if (!all.every((run) => run.done && !run.stopped && run.passes.length)) return null;
  const pairs = all.flatMap((run) => {
    const baseline = isBaseline(run) ? null : baselineOf(run, runs);
    return baseline ? [{ run, baseline }] : [];
  });
  for (const check of CHECKS)
    for (const { run, baseline } of pairs) {
      const cause = check(run, baseline);
      if (!cause) continue;
      return pairs.length > 1
        ? { ...cause, sentence: `${run.title}: ${continued(cause.sentence)}` }
        : cause;
    }
  return null;
}

/** @param {string} sentence */
const continued = (sentence) => `${sentence[0].toLowerCase()}${sentence.slice(1)}`;

/** @param {Run} run */
function looping(run) {
  if (!isLoop(run)) return null;
  const sentence =
    "The answer repeats itself. Repeated text is easy to predict, so its speed means little.";
  return { sentence, offers: true };
}

/**
 * Explain a different answer by the slot of the first difference. Modes that verify drafts differ by
 * rounding only, which the verdict explains, and sampled answers differ by design.
 */
function differing(/** @type {Run} */ run, /** @type {Run} */ baseline) {
  const index = firstDifference(baseline.ids, run.ids);
  const mayDiffer = run.mode.beyond === "draft" || run.settings.sampling;
  const place = index === null || mayDiffer ? null : run.placeOf(index);
  if (!place) return null;
  const { slots, tau } = run.passes[place.pass];
  const { score } = slots[place.slot];
  const number = slotNumber(run.passes[place.pass], place.slot);
  const isGuess = number > 1 && run.mode.beyond === "unread" && tau !== null;
  const guess = `Slot ${number} reached τ ${tauText(tau ?? 1)} (${scoreName(run)} ${scoreText(run, score)})`;
  const where = isGuess ? `${guess}, but AR` : "After the same text, AR";
  return { sentence: `${where} continues differently: the answer may be wrong.`, offers: true };
}

function gainless(/** @type {Run} */ run, /** @type {Run} */ baseline) {
  if (run.speed / baseline.speed >= LITTLE) return null;
  const sentence = run.perForward < FEW ? fewTokens(run) : slowForwards(run, baseline);
  return sentence && { sentence, offers: true };
}

/** @param {Run} run */
function fewTokens(run) {
  if (run.mode.uses_tau && run.passes.every(({ tau }) => tau === null || tau >= 1))
    return `At τ = 1, each forward accepts one token${run.forced ? " and those that the grammar forces" : ""}.`;
  const { had, accepted } = slotsOf(run)[1] ?? { had: 0, accepted: 0 };
  if (!had) return "No forward predicted a second token.";
  const outcome = run.mode.uses_tau ? "The second slot reached τ" : "The second token was accepted";
  const forwards =
    had < run.passes.length
      ? `${accepted} of the ${plural(had, "forward")} that had one`
      : `${accepted} of ${plural(had, "forward")}`;
  return `${outcome} in ${forwards}, as in free text or on prompts unlike the training data.`;
}

/** Explain many tokens per forward without a gain in time: by the cost of forwards, or by the prefill. */
function slowForwards(/** @type {Run} */ run, /** @type {Run} */ baseline) {
  const prefill = timesOf(run).prefill / run.ms;
  if (prefill >= MOST)
    return `The prefill took ${fixed(100 * prefill, 0)}% of the time, and MARS does not shorten it.`;
  const points = costPoints(run, baseline);
  const prediction = points && predicted(run, curveThrough(points));
  if (!prediction || prediction.factor >= LITTLE) return null;
  const { positions, ratio } = prediction;
  const size = Number.isInteger(positions) ? `${positions}` : `on average ${fixed(positions, 1)}`;
  const cost = `a forward of ${size} positions takes ${fixed(ratio, 1)} times as long as one of 1`;
  return `${fixed(run.perForward, 1)} tokens per forward, but ${cost}.`;
}

/** @param {Run} run */
function copying(run) {
  const copied = run.accepted.filter(({ source }) => source === "copy").length;
  if (copied < MOST * run.accepted.length) return null;
  const share = `${copied} of ${plural(run.accepted.length, "token")}`;
  return { sentence: `Prompt lookup copied ${share} from earlier text.`, offers: false };
}
