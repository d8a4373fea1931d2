// The result of a race in words, and what limits it.

import { fixed, percent, plural } from "../words.js";
import { isLoop } from "./cause.js";
import { baselineOf, inOrder, isBaseline } from "./modes.js";
import { firstDifference } from "./passes.js";

/** @typedef {import("./run.js").Run} Run */

const OUTLIER = 5; // times the median forward of its run
const TIED = 0.8; // the least ratio of the second to the first probability where rounding may decide
const MATTERS = 0.2; // of the run's time: the least excess over the median that is reported

/**
 * Return a sentence for each run. Of several sides, the fastest one with AR's answer comes first; without one,
 * a sentence says so.
 * @param {Record<string, Run>} runs by lane
 */
export function verdict(runs) {
  const all = Object.values(runs);
  if (!all.every((run) => run.done))
    return ["Racing, each side on its own clock. Move τ: it acts from the next forward on."];
  if (!all.every((run) => run.passes.length)) return ["Stopped before every side had begun."];
  const stopped = all.some((run) => run.stopped);
  const others = inOrder(runs).filter((run) => !isBaseline(run));
  const [winners, ...headline] = stopped ? [[], "Stopped."] : ranked(others, runs);
  const rest = others.filter((run) => !winners.includes(run));
  const parts = rest.map((run, index) => described(run, runs, stopped, !winners.length && index === 0));
  if (stopped || !others.length) parts.push(...all.filter(isBaseline).map((run) => `${summary(run)}.`));
  return [...headline, ...parts];
}

/**
 * Return those of several sides that are faster than AR, have its answer and are the fastest ones, as their
 * speeds are written, and the headline. Races do not share winners, and the speed of a loop is no achievement.
 * @param {Run[]} others
 * @param {Record<string, Run>} runs
 * @returns {[Run[], ...string[]]}
 */
function ranked(others, runs) {
  const [baseline, another] = new Set(others.map((run) => baselineOf(run, runs)));
  if (others.length < 2 || !baseline || another !== undefined || isLoop(baseline)) return [[]];
  const factors = new Map(others.map((run) => [run, factorOf(run, baseline)]));
  const faster = others.filter((run) => Number(factors.get(run)) > 1);
  const equal = faster.filter((run) => firstDifference(baseline.ids, run.ids) === null);
  if (!faster.length) return [[], "No side is faster than AR."];
  if (!equal.length) return [[], "No faster side has AR's answer."];
  const factor = fixed(Math.max(...equal.map((run) => Number(factors.get(run)))), 1);
  const winners = equal.filter((run) => factors.get(run) === factor);
  const listed = (/** @type {(run: Run) => string} */ word) =>
    [...new Set(winners.map(word))].join(" and ");
  const are = winners.length > 1 ? "are the fastest sides" : "is the fastest side";
  return [
    winners,
    `${listed(({ title }) => title)} ${are} with AR's answer${truncation(winners[0])}: ` +
      `${listed(({ perForward }) => fixed(perForward, 1))} tokens per forward` +
      `${winners.some(({ forced }) => forced) ? `, ${listed(forcedRate)} of them forced` : ""}, ` +
      `${factor}× as fast as AR.`,
  ];
}

/** Return a run's speed relative to the baseline's, as it is written. */
const factorOf = (/** @type {Run} */ run, /** @type {Run} */ baseline) =>
  fixed(run.speed / baseline.speed, 1);

/**
 * Return what limits the verdict of a finished race, a sentence each.
 * @param {Record<string, Run>} runs by lane
 */
export function warnings(runs) {
  const all = Object.values(runs);
  if (!all.every((run) => run.done && run.passes.length)) return [];
  const pairs = all.flatMap((run) => {
    const baseline = isBaseline(run) || run.stopped ? null : baselineOf(run, runs);
    return baseline && !baseline.stopped ? [{ run, baseline }] : [];
  });
  return [...pairs.flatMap(({ run, baseline }) => inexact(run, baseline)), ...all.flatMap(hiccup)];
}

/**
 * @param {Run} run
 * @param {Record<string, Run>} runs
 * @param {boolean} stopped
 * @param {boolean} isFirst the first sentence names what the numbers are
 */
function described(run, runs, stopped, isFirst) {
  const baseline = baselineOf(run, runs);
  return baseline && !stopped ? compared(run, baseline, isFirst) : `${summary(run, isFirst)}.`;
}

const summary = (/** @type {Run} */ run, isFirst = true) =>
  `${run.title}: ${fixed(run.perForward, 1)} ${isFirst ? "tokens " : ""}per forward` +
  (run.forced ? `, ${forcedRate(run)} ${isFirst ? "of them " : ""}forced` : "");

/** Return the tokens per forward that the grammar forced, as they are written. */
const forcedRate = (/** @type {Run} */ run) => fixed(run.forced / run.forwards, 1);

function truncation(/** @type {Run} */ run) {
  if (run.done?.stop !== "length") return "";
  const length = plural(run.ids.length, "token");
  if (!run.isUnfinished) return `, truncated at ${length}`;
  return `, unfinished (${length}${run.settings.grammar?.kind === "json" ? ", not valid JSON" : ""})`;
}

/**
 * Compare a run with the baseline; the speed of a loop is no achievement.
 * @param {Run} run
 * @param {Run} baseline
 * @param {boolean} isFirst
 */
function compared(run, baseline, isFirst) {
  const factor = `${factorOf(run, baseline)}× as fast`;
  const speed = isLoop(run) ? "" : `, ${factor}${isFirst ? " as AR" : ""}`;
  const difference = firstDifference(baseline.ids, run.ids);
  const agreement =
    difference === null
      ? `same answer${truncation(run)}`
      : `differs from token ${difference + 1} on${run.isUnfinished ? truncation(run) : ""}`;
  return `${summary(run, isFirst)}${speed}; ${agreement}.`;
}

/** Whether the answer of a run should be that of the baseline. */
const isExact = (/** @type {Run} */ run) =>
  run.mode.beyond === "draft" || run.passes.every(({ tau }) => tau === null || tau >= 1);

/**
 * Say where the answer of an exact run is not always that of the baseline: rounding can swap two nearly tied
 * tokens, above all in 16 bits on a GPU.
 * @param {Run} run
 * @param {Run} baseline
 */
function inexact(run, baseline) {
  const { device, dtype } = run.settings;
  if (!isExact(run)) return [];
  const index = firstDifference(baseline.ids, run.ids);
  if (index !== null) return tied(run, baseline, index);
  if (device === "cpu" || !dtype.endsWith("float16")) return [];
  return [
    `${run.title}: in ${dtype} on a GPU, other answers can differ from AR's at near ties; ` +
      "how many is not measured.",
  ];
}

/**
 * @param {Run} run
 * @param {Run} baseline
 * @param {number} index
 */
function tied(run, baseline, index) {
  const [other, own] = [run, baseline].map(({ accepted }) => accepted[index]?.top ?? []);
  const isTied = own.length > 1 && own[1][1] >= TIED * own[0][1] && other[0]?.[0] === own[1][0];
  if (!isTied || baseline.settings.sampling) return [];
  const shares = own.slice(0, 2).map(([, share]) => percent(share));
  return [
    `${run.title}: at token ${index + 1}, two tokens were nearly tied (${shares.join(" and ")}), ` +
      `and rounding in ${run.settings.dtype} decided.`,
  ];
}

/** Describe a forward that took far too long and slowed the run down; the prefill does not count. */
function hiccup(/** @type {Run} */ run) {
  const times = run.passes.slice(1).map((pass) => pass.ms);
  const longest = Math.max(...times);
  const median = times.toSorted((a, b) => a - b)[times.length >> 1];
  if (!(longest > OUTLIER * median) || longest - median <= MATTERS * run.ms) return [];
  const factor = fixed(longest / median, 0);
  const slow = `one forward took ${fixed(longest, 0)} ms, ${factor} times the median`;
  return [`${run.title}: ${slow}. Another process used the CPU, so the speed of this side is understated.`];
}
