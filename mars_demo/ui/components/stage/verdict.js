// The result of a race in words.

import { percent, plural } from "../words.js";
import { baselineOf, inOrder, isBaseline, originOf } from "./modes.js";
import { firstDifference } from "./passes.js";

const OUTLIER = 5; // times the median forward of its run
const TIED = 0.8; // how likely the second choice is at least, as a share of the first, where rounding may decide
const MATTERS = 0.2; // of the run's time: what an outlier must exceed the median by to be worth a sentence

/** A sentence per side. `runs` has a run per lane. */
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

function described(run, runs, stopped) {
  const baseline = baselineOf(run, runs);
  if (run.branch) return branched(run, originOf(run, runs));
  return baseline && !stopped ? compared(run, baseline) : `${summary(run)}.`;
}

/** No clock is compared: a branch need not read the prompt again. */
function branched(run, origin) {
  if (!origin) return `${summary(run)}.`;
  const index = firstDifference(origin.answerIds, run.answerIds);
  return `${summary(run)}; ${index === null ? "the same answer as its origin" : `another answer than its origin from token ${index + 1} on`}.`;
}

const summary = (run) =>
  `${run.title}: ${plural(run.ids.length, "token")} in ${plural(run.passes.length, "forward")}, ` +
  `${run.perForward.toFixed(1)} per forward`;

function compared(run, baseline) {
  const factor = (run.speed / baseline.speed).toFixed(1);
  const difference = firstDifference(baseline.answerIds, run.answerIds);
  const cut = run.done.stop === "length" ? `, cut at ${plural(run.ids.length, "token")}` : "";
  const agreement = difference === null ? `same answer${cut}` : `differs from token ${difference + 1} on${tie(run, baseline, difference)}`;
  return `${summary(run)}, ${factor}× as fast as one token at a time; ${agreement}.`;
}

/** Why a run that promises the baseline's answer has another one: two tokens that rounding put into either order. */
function tie(run, baseline, index) {
  const promises = run.mode.beyond === "draft" || run.passes.every(({ tau }) => tau === null || tau >= 1);
  const [other, own] = [run, baseline].map(({ accepted }) => accepted[index]?.top ?? []);
  const tied = own.length > 1 && own[1][1] >= TIED * own[0][1] && other[0]?.[0] === own[1][0];
  if (!promises || !tied || baseline.settings.sampling) return "";
  const shares = own.slice(0, 2).map(([, share]) => percent(share));
  return `, where two tokens were nearly tied (${shares.join(" and ")}) and rounding in ${run.settings.dtype} decided`;
}

/** What one forward that took far too long did to a run's speed; the prefill, another kind of forward, aside. */
function hiccup(run) {
  const times = run.passes.slice(1).map((pass) => pass.ms);
  const longest = Math.max(...times);
  const median = times.toSorted((a, b) => a - b)[times.length >> 1];
  if (!(longest > OUTLIER * median) || longest - median <= MATTERS * run.ms) return [];
  return [
    `${run.title}: one forward took ${longest.toFixed(0)} ms, ${(longest / median).toFixed(0)} times the median. ` +
      "Something else used the processor, so the speed of this side is understated.",
  ];
}
