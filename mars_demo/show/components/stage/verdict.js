// The result of a race in words.

import { percent, plural } from "../words.js";
import { isLoop } from "./cause.js";
import { baselineOf, inOrder, isBaseline, originOf } from "./modes.js";
import { firstDifference } from "./passes.js";

/** @typedef {import("./run.js").Run} Run */

const OUTLIER = 5; // times the median forward of its run
const TIED = 0.8; // the least ratio of the second to the first probability where rounding may decide
const MATTERS = 0.2; // of the run's time: the least excess over the median that is reported

/**
 * Return a sentence for each run.
 * @param {Record<string, Run>} runs by lane
 */
export function verdict(runs) {
  const all = Object.values(runs);
  if (!all.every((run) => run.done)) return ["Racing; each side is timed by its own clock."];
  if (!all.every((run) => run.passes.length)) return ["Stopped before every side had begun."];
  const stopped = all.some((run) => run.stopped);
  const others = inOrder(runs).filter((run) => !isBaseline(run));
  const parts = others.map((run) => described(run, runs, stopped));
  if (stopped || !parts.length) parts.push(...all.filter(isBaseline).map((run) => `${summary(run)}.`));
  return [...(stopped ? ["Stopped."] : []), ...parts, ...all.flatMap(hiccup)];
}

/**
 * @param {Run} run
 * @param {Record<string, Run>} runs
 * @param {boolean} stopped
 */
function described(run, runs, stopped) {
  const baseline = baselineOf(run, runs);
  if (run.branch) return branched(run, originOf(run, runs));
  return baseline && !stopped ? compared(run, baseline) : `${summary(run)}.`;
}

/** Describe a branch without its speed, which is not comparable: it may reuse the cached prompt. */
function branched(/** @type {Run} */ run, /** @type {Run | null} */ origin) {
  if (!origin) return `${summary(run)}.`;
  const index = firstDifference(origin.answerIds, run.answerIds);
  const agreement =
    index === null ? "same answer as its origin" : `differs from its origin from token ${index + 1} on`;
  return `${summary(run)}; ${agreement}.`;
}

/** @param {Run} run */
const summary = (run) =>
  `${run.title}: ${plural(run.ids.length, "token")} in ${plural(run.forwards, "forward")}, ` +
  `${run.perForward.toFixed(1)} per forward`;

/** Compare a run with the baseline; the speed of a loop is no achievement. */
function compared(/** @type {Run} */ run, /** @type {Run} */ baseline) {
  const factor = (run.speed / baseline.speed).toFixed(1);
  const speed = isLoop(run) ? "" : `, ${factor}× as fast as one token at a time`;
  const difference = firstDifference(baseline.answerIds, run.answerIds);
  const truncated = run.done?.stop === "length" ? `, truncated at ${plural(run.ids.length, "token")}` : "";
  const agreement =
    difference === null
      ? `same answer${truncated}${rounding(run)}`
      : `differs from token ${difference + 1} on${tie(run, baseline, difference)}`;
  return `${summary(run)}${speed}; ${agreement}.`;
}

/** Whether the answer of a run should be that of the baseline. */
const isExact = (/** @type {Run} */ run) =>
  run.mode.beyond === "draft" || run.passes.every(({ tau }) => tau === null || tau >= 1);

/** Say where the answer of an exact run is not always that of the baseline: in 16 bits on a GPU. */
function rounding(/** @type {Run} */ run) {
  const { device, dtype } = run.settings;
  if (!isExact(run) || device === "cpu" || !dtype.endsWith("float16")) return "";
  return `; in ${dtype} on a GPU, other answers can differ at near ties, how many is not measured`;
}

/**
 * Explain a difference from the baseline of an exact run: rounding can swap two nearly tied tokens.
 * @param {Run} run
 * @param {Run} baseline
 * @param {number} index
 */
function tie(run, baseline, index) {
  const [other, own] = [run, baseline].map(({ accepted }) => accepted[index]?.top ?? []);
  const isTied = own.length > 1 && own[1][1] >= TIED * own[0][1] && other[0]?.[0] === own[1][0];
  if (!isExact(run) || !isTied || baseline.settings.sampling) return "";
  const shares = own.slice(0, 2).map(([, share]) => percent(share));
  return (
    `, where two tokens were nearly tied (${shares.join(" and ")}) ` +
    `and rounding in ${run.settings.dtype} decided`
  );
}

/** Describe a forward that took far too long and slowed the run down; the prefill does not count. */
function hiccup(/** @type {Run} */ run) {
  const times = run.passes.slice(1).map((pass) => pass.ms);
  const longest = Math.max(...times);
  const median = times.toSorted((a, b) => a - b)[times.length >> 1];
  if (!(longest > OUTLIER * median) || longest - median <= MATTERS * run.ms) return [];
  const factor = (longest / median).toFixed(0);
  const slow = `one forward took ${longest.toFixed(0)} ms, ${factor} times the median`;
  return [`${run.title}: ${slow}. Another process used the CPU, so the speed of this side is understated.`];
}
