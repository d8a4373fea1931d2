// Why a run is as fast as it is: what its forwards cost, what they accepted, and what other windows would have given.
// Figures only, no drawing. c(k) is that of decoding/costs.py, tokens per millisecond those of decoding/pace.py.

import { acceptedAt, asksWhatIf } from "./passes.js";

const TAUS = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99];
const LARGEST = 64; // slots of a window

const sum = (values) => values.reduce((total, value) => total + value, 0);
const mean = (values) => sum(values) / values.length;
const isAmount = (value) => Number.isFinite(value) && value > 0;

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : mean(sorted.slice(middle - 1, middle + 1));
}

/** The forwards after the prefill, which reads the prompt and is of another kind. */
const later = (run) => run.passes.slice(1).filter(({ positions, ms }) => isAmount(positions) && isAmount(ms));

/** How many of these forwards had how many positions, and their median time: {positions, count, ms}, ascending. */
export function sizesOf(run) {
  const times = new Map();
  for (const { positions, ms } of later(run)) times.set(positions, [...(times.get(positions) ?? []), ms]);
  const sizes = [...times].map(([positions, found]) => ({ positions, count: found.length, ms: median(found) }));
  return sizes.sort((a, b) => a.positions - b.positions);
}

// -------------------------------------------------------------------------------------------- costs

/** The points [positions, ms] of c that a run was made with; null where its record has none. */
export function knownCosts({ settings: { costs } }) {
  const arePoints = Array.isArray(costs) && costs.length > 1 && costs.every((point) => point?.length === 2 && [...point].every(isAmount));
  const ascend = arePoints && costs.slice(1).every(([k, ms], index) => k > costs[index][0] && ms >= costs[index][1]);
  return ascend ? costs : null;
}

/** Those that a run was made with; else the medians of its forwards and of the baseline's, as the nearest curve
 * that never falls. Null where nothing says what one position costs. */
export function costPoints(run, baseline) {
  const known = knownCosts(run);
  if (known) return known;
  const sizes = new Map([run, baseline].flatMap((side) => (side ? sizesOf(side) : [])).map(({ positions, ms }) => [positions, ms]));
  const points = [...sizes].sort(([a], [b]) => a - b);
  return points[0]?.[0] === 1 ? rising(points) : null;
}

/** Neighbours in the wrong order get their mean (isotonic regression). */
function rising(points) {
  const blocks = [];
  for (const [, ms] of points) {
    blocks.push([ms]);
    while (blocks.length > 1 && mean(blocks.at(-2)) > mean(blocks.at(-1))) {
      const last = blocks.pop();
      blocks.at(-1).push(...last);
    }
  }
  const level = blocks.flatMap((block) => block.map(() => mean(block)));
  return points.map(([positions], index) => [positions, level[index]]);
}

/** c(k) through points, straight between them; after the last as between the last two. */
export const curveThrough = (points) => (k) => {
  if (k <= points[0][0] || points.length < 2) return points[0][1];
  const beyond = points.findIndex(([positions]) => positions > k);
  const place = beyond < 0 ? points.length - 1 : beyond;
  const [[low, cheap], [high, dear]] = points.slice(place - 1, place + 1);
  return cheap + ((dear - cheap) * (k - low)) / (high - low);
};

/** What tokens per forward and the cost of its forwards make of a run's speed, in multiples of one token per forward of
 * one position; null where it had no forward after the prefill. */
export function predicted(run, cost) {
  const sizes = later(run).map(({ positions }) => positions);
  if (!sizes.length) return null;
  const ratio = mean(sizes.map(cost)) / cost(1);
  return { perForward: run.perForward, positions: mean(sizes), ratio, factor: run.perForward / ratio };
}

// ------------------------------------------------------------------------------------------- slots

/** Of a forward: how many slots were decided, and how many of them were accepted. What comes after the end of an
 * answer was not; where drafts are verified, those for the next forward were not yet. */
function outcomeOf(run, pass, accepted = pass.accepted) {
  if (pass.stop) return { slots: pass.accepted, accepted };
  return { slots: run.mode.beyond === "draft" ? (pass.drafts ?? 0) + 1 : pass.slots.length, accepted };
}

const mostSlots = (outcomes) => Math.min(LARGEST, Math.max(0, ...outcomes.map(({ slots }) => slots)));

/** For each place in the window: how many forwards had such a slot, and how many accepted it. */
export function slotsOf(run) {
  const outcomes = run.passes.map((pass) => outcomeOf(run, pass));
  return Array.from({ length: mostSlots(outcomes) }, (_, index) => {
    const had = outcomes.filter(({ slots }) => slots > index);
    return { had: had.length, accepted: had.filter(({ accepted }) => accepted > index).length };
  });
}

/** The probability that the first i masks are accepted, for i from 0: each slot's share where those before it were
 * accepted, so that a forward with fewer slots counts as far as it goes. */
function chancesOf(outcomes) {
  const chances = [1];
  for (let place = 1; place < mostSlots(outcomes); place++) {
    const reached = outcomes.filter(({ slots, accepted }) => slots > place && accepted >= place);
    if (!reached.length && chances.at(-1)) return chances;
    const held = reached.filter(({ accepted }) => accepted > place);
    chances.push(reached.length ? (chances.at(-1) * held.length) / reached.length : 0);
  }
  return chances;
}

/** Of an answer whose forwards all have that many masks: a forward computes them and what the one before accepted. */
function tokensPerMs(chances, masks, cost) {
  let ms = chances[masks] * cost(2 * masks + 1);
  for (let accepted = 1; accepted <= masks; accepted++) ms += (chances[accepted - 1] - chances[accepted]) * cost(accepted + masks);
  return sum(chances.slice(0, masks + 1)) / ms;
}

/** The speed that each window from 1 slot on would have given, in multiples of one token at a time. */
function factorsOf(outcomes, cost) {
  const chances = chancesOf(outcomes);
  return chances.map((_, masks) => tokensPerMs(chances, masks, cost) * cost(1));
}

/** Whether another window can be estimated from a run's slots: where no forward depends on drafts of another one. */
export const asksWindow = (run) => asksWhatIf(run) && !run.mode.needs_draft;

function bestOf(outcomes, cost) {
  const factors = factorsOf(outcomes, cost);
  const factor = Math.max(...factors);
  return { window: factors.indexOf(factor) + 1, factor, largest: factors.length, full: factors.at(-1) };
}

/** The window that would have been fastest with what was accepted: {window, factor}, and the same of the largest that
 * can be estimated: {largest, full}. */
export const bestWindow = (run, cost) => bestOf(run.passes.map((pass) => outcomeOf(run, pass)), cost);

/** The same for other thresholds, where each forward is taken alone: {tau, window, factor}. */
export const bestAtTaus = (run, cost) =>
  TAUS.map((tau) => ({ tau, ...bestOf(run.passes.map((pass) => outcomeOf(run, pass, acceptedAt(pass, tau))), cost) }));

// -------------------------------------------------------------------------------------------- time

/** Milliseconds of a run: its prefill, and of the other forwards those in the model, in reading logits and in the
 * rest. These three are null where the record does not tell them apart. */
export function timesOf(run) {
  const forwards = run.passes.slice(1);
  const prefill = run.passes[0]?.ms ?? 0;
  const others = run.ms - prefill;
  const parts = ["model_ms", "read_ms"].map((name) => forwards.map((pass) => pass[name]));
  if (!forwards.length || !parts.flat().every((ms) => Number.isFinite(ms) && ms >= 0)) return { prefill, others, parts: null };
  const [model, read] = parts.map(sum);
  return { prefill, others, parts: { model, read, rest: Math.max(0, others - model - read) } };
}
