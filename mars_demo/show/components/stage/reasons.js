// What a run's speed is made of, in sentences.

import { fixed, plural } from "../words.js";
import { curveThrough, predicted, sizesOf } from "./speed.js";

/** Return the sentences. `points` are those of c(k); null if the cost of 1 position is unknown. */
export function reasons(run, baseline, points) {
  if (run.passes.length < 2) return ["The whole answer came with the first forward, the prefill."];
  if (run === baseline) return run.forced ? [aboutForced(run)] : sizesOf(run).map(aboutBaseline);
  const cost = points && curveThrough(points);
  const prediction = cost && predicted(run, cost);
  if (!prediction) return [MISSING];
  const measured = measuredOf(run, baseline);
  const own = baseline?.forced ? predicted(baseline, cost) : null;
  const factor = prediction.factor / (own?.factor ?? 1);
  const expected = own
    ? `${written(prediction.factor)} ÷ ${written(own.factor)} = ${times(factor)} as fast as AR, ` +
      `to which the grammar gives ${own.perForward.toFixed(2)} tokens per forward`
    : `${times(factor)} as fast as one token at a time`;
  return [explained(prediction, measured ?? factor), compared(expected, measured, baseline)];
}

const MISSING =
  "Expected speed-up: unknown. The record has neither measured costs of forwards nor a side with " +
  "one token per forward.";

function aboutBaseline({ positions, ms }) {
  return (
    `Each forward computes ${plural(positions, "position")} and gives one token: ${fixed(ms, 1)} ms, ` +
    "the median. The other sides are compared with this one."
  );
}

const aboutForced = (run) =>
  "Each forward gives one token and those that the grammar forces after it: " +
  `${run.perForward.toFixed(2)} tokens per forward. The other sides are compared with this one.`;

/** Return the measured speed-up of the verdict, if any. */
function measuredOf(run, baseline) {
  if (!baseline || baseline.stopped || run.stopped) return null;
  return run.speed / baseline.speed;
}

/** Format a speed-up; close to 1, the second decimal says which side is faster. */
const written = (factor) => fixed(factor, factor < 1.95 ? 2 : 1);
const times = (factor) => `${written(factor)}×`;

/** Explain the speed-up as tokens per forward divided by the cost of a forward. */
function explained({ perForward, positions, ratio, factor }, speed) {
  const tokens = fixed(perForward, 2);
  if (positions === 1)
    return `${tokens} tokens per forward. Each forward has 1 position, as with one token per forward.`;
  const size = Number.isInteger(positions)
    ? `${positions} positions`
    : `${fixed(positions, 1)} positions on average`;
  const cost = `a forward of ${size} takes ${fixed(ratio, 2)} times as long as one of 1`;
  const division = `${tokens} ÷ ${fixed(ratio, 2)} = ${written(factor)}`.replaceAll(" ", "\u00a0");
  if (speed < 1)
    return `One token at a time wins here: ${tokens} tokens per forward, and ${cost}: ${division}.`;
  return `${tokens} tokens per forward, but ${cost}: ${division}.`;
}

function compared(expected, measured, baseline) {
  const start = `Predicted: ${expected}.`;
  if (measured !== null)
    return `${start} Measured: ${times(measured)}, which also counts the prefill of both sides.`;
  if (baseline) return `${start} Not measured: the race was stopped.`;
  return `${start} Not measured: no side had one token per forward.`;
}
