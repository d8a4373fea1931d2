// What a run's speed is made of: the cost of its forwards and what they accepted. No drawing here. c(k), the
// cost of a forward of k positions, is measured by decoding/pace.py and the live page's pace.js.

import { forcedBefore } from "../acceptance.js";

const LARGEST = 64; // slots of a window

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : mean(sorted.slice(middle - 1, middle + 1));
}

/** Return the forwards after the prefill, whose cost is that of the prompt. */
const later = (run) => run.passes.slice(1);

/**
 * Return the number and the median time of the forwards of each size, in ascending order of positions.
 */
export function sizesOf(run) {
  const times = new Map();
  for (const { positions, ms } of later(run)) times.set(positions, [...(times.get(positions) ?? []), ms]);
  const sizes = [...times].map(([positions, ms]) => ({ positions, count: ms.length, ms: median(ms) }));
  return sizes.sort((a, b) => a.positions - b.positions);
}

// -------------------------------------------------------------------------------------------- costs

/**
 * Return the measured points of c(k), or those of the race: the median of the baseline's
 * forwards of 1 position, and the mean of the run's forwards. Return null if the cost of 1 position is unknown.
 */
export function costPoints(run, baseline) {
  if (run.settings.costs?.length) return run.settings.costs;
  const one = (baseline ? sizesOf(baseline) : []).find(({ positions }) => positions === 1);
  const forwards = later(run);
  if (!one || !forwards.length) return null;
  const positions = mean(forwards.map((pass) => pass.positions));
  const ms = mean(forwards.map((pass) => pass.ms));
  return [
    [1, one.ms],
    [positions, ms],
  ].slice(0, positions > 1 ? 2 : 1);
}

/** Return c(k), linear between the points and extrapolated from the last two. */
export const curveThrough = (points) => (k) => {
  if (k <= points[0][0] || points.length < 2) return points[0][1];
  const beyond = points.findIndex(([positions]) => positions > k);
  const right = beyond < 0 ? points.length - 1 : beyond;
  const [[low, msLow], [high, msHigh]] = points.slice(right - 1, right + 1);
  return msLow + ((msHigh - msLow) * (k - low)) / (high - low);
};

/**
 * Return the speed-up over one token per forward that tokens per forward and the cost of the forwards
 * predict; null for a run that has only a prefill.
 */
export function predicted(run, cost) {
  const sizes = later(run).map(({ positions }) => positions);
  if (!sizes.length) return null;
  const ratio = mean(sizes.map(cost)) / cost(1);
  return { perForward: run.perForward, positions: mean(sizes), ratio, factor: run.perForward / ratio };
}

// ------------------------------------------------------------------------------------------- slots

/**
 * Return the decided and the accepted slots of a forward. Slots after the end of an answer are undecided;
 * so are drafts that the next forward verifies. Tokens that a grammar forces before or after the slots are
 * not among them.
 */
function outcomeOf(run, number) {
  const pass = run.passes[number];
  const slots = run.mode.beyond === "draft" ? (pass.drafts ?? 0) + 1 : computed(run, number);
  const accepted = Math.min(pass.accepted - forcedBefore(pass), slots);
  return { slots: pass.stop ? accepted : slots, accepted };
}

/** Return the slots that a forward computed: its last token, and its drafts and masks. */
function computed({ passes, settings }, number) {
  const [before, pass] = [passes[number - 1], passes[number]];
  if (!settings.grammar) return pass.slots.length;
  const { prompt_tokens = 0, cached_tokens = 0 } = settings;
  const tokens = before
    ? before.accepted - forcedBefore(before)
    : prompt_tokens - cached_tokens + forcedBefore(pass);
  return Math.min(pass.slots.length - forcedBefore(pass), pass.positions - tokens + 1);
}

/**
 * Return for each slot of the window the number of forwards that had it, and of those that accepted it.
 */
export function slotsOf(run) {
  const outcomes = run.passes.map((_, number) => outcomeOf(run, number));
  const length = Math.min(LARGEST, Math.max(0, ...outcomes.map(({ slots }) => slots)));
  return Array.from({ length }, (_, index) => {
    const had = outcomes.filter(({ slots }) => slots > index);
    return { had: had.length, accepted: had.filter(({ accepted }) => accepted > index).length };
  });
}

// -------------------------------------------------------------------------------------------- time

/**
 * Return the milliseconds of the prefill, of the other forwards, and of their parts: the model, reading
 * logits, the rest. `parts` is null if the record does not separate them.
 */
export function timesOf(run) {
  const forwards = run.passes.slice(1);
  const prefill = run.passes[0]?.ms ?? 0;
  const others = run.ms - prefill;
  const [model, read] = [
    forwards.map(({ model_ms }) => model_ms ?? Number.NaN),
    forwards.map(({ read_ms }) => read_ms ?? Number.NaN),
  ];
  if (!forwards.length || ![...model, ...read].every((ms) => ms >= 0))
    return { prefill, others, parts: null };
  const rest = Math.max(0, others - sum(model) - sum(read));
  return { prefill, others, parts: { model: sum(model), read: sum(read), rest } };
}
