// Why a run is as fast as it is, in sentences with their figures.

import { plural } from "../words.js";
import { asksWindow, bestAtTaus, bestWindow, curveThrough, predicted, sizesOf } from "./speed.js";

/** `points` are those of c(k); null where nothing says what one position costs. */
export function reasons(run, baseline, points) {
  if (run.passes.length < 2) return ["The whole answer came with the first forward, the prefill."];
  if (run === baseline) return sizesOf(run).map(aboutBaseline);
  const found = points && predicted(run, curveThrough(points));
  if (!found) return [MISSING];
  const measured = measuredOf(run, baseline);
  return [explained(found, measured ?? found.factor), compared(run, found, measured, baseline), ...windowAdvice(run, points)];
}

const MISSING =
  "Which speed-up to expect cannot be said: the record holds neither what forwards cost here nor a side with one token per forward.";

function aboutBaseline({ positions, ms }) {
  return `Each forward computes ${plural(positions, "position")} and gives one token: ${ms.toFixed(1)} ms, the median. The other sides are compared with this one.`;
}

/** The factor that the verdict states; null where it states none. */
function measuredOf(run, baseline) {
  if (!baseline || baseline.stopped || run.stopped || run.branch) return null;
  return run.speed / baseline.speed;
}

/** Close to 1, a second decimal tells which side is faster. */
const written = (factor) => factor.toFixed(factor < 1.95 ? 2 : 1);
export const times = (factor) => `${written(factor)}×`;

/** Tokens per forward divided by what a forward costs. */
function explained({ perForward, positions, ratio, factor }, speed) {
  const tokens = perForward.toFixed(2);
  if (positions === 1) return `${tokens} tokens per forward, and a forward of 1 position takes as long as it does with one token per forward.`;
  const size = Number.isInteger(positions) ? `${positions} positions` : `${positions.toFixed(1)} positions on average`;
  const cost = `a forward of ${size} takes ${ratio.toFixed(2)} times as long as one of 1`;
  const division = `${tokens} ÷ ${ratio.toFixed(2)} = ${written(factor)}`.replaceAll(" ", "\u00a0"); // on one line
  if (speed < 1) return `One token at a time wins here: ${tokens} tokens per forward, and ${cost}: ${division}.`;
  return `${tokens} tokens per forward, but ${cost}: ${division}.`;
}

function compared(run, { factor }, measured, baseline) {
  const start = `Predicted: ${times(factor)} as fast as one token at a time.`;
  if (measured !== null) return `${start} Measured: ${times(measured)}, which also counts the prefill of both sides.`;
  if (baseline && run.branch) return `${start} A branch is not measured against it: it need not read the prompt again.`;
  return `${start} ${baseline ? "Nothing was measured: the race was stopped." : "There is no side with one token per forward to measure it against."}`;
}

/** The window that would have been fastest, for the τ of the run. */
function windowAdvice(run, points) {
  if (!asksWindow(run)) return [];
  const { window, factor, largest, full } = bestWindow(run, curveThrough(points));
  if (largest < 2) return [];
  const estimate = "estimated from this run's slots";
  if (window === 1) return [`Best window here: 1 slot, which is one token at a time (${estimate}).`];
  if (window === largest) return [`Best window here: ${plural(window, "slot")}, the largest that this run shows: ${times(factor)} (${estimate}).`];
  return [`Best window here: ${plural(window, "slot")}, ${times(factor)}; with ${largest} it would be ${times(full)} (${estimate}).`];
}

/** The best window at the run's τ and at others: {name, window, factor, own}. */
export function estimates(run, points) {
  if (!points || !asksWindow(run) || run.passes.length < 2) return [];
  const cost = curveThrough(points);
  if (bestWindow(run, cost).largest < 2) return [];
  const [tau, ...moved] = new Set(run.passes.map((pass) => pass.tau ?? 1));
  const asRan = moved.length ? { tau: -1, name: "as it moved" } : { tau, name: tau.toFixed(2) };
  const own = { ...bestWindow(run, cost), ...asRan, own: true };
  const others = bestAtTaus(run, cost).filter(({ tau }) => tau !== own.tau).map((row) => ({ ...row, name: row.tau.toFixed(2), own: false }));
  return [own, ...others].sort((a, b) => a.tau - b.tau);
}
