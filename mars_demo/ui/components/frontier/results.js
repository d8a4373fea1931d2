// Results: a heading, points and an end each. No drawing here.

import { constants } from "../component.js";
import { plural } from "../words.js";

const KEPT = 6; // results of this visit to keep

/** The results by name, the newest last. */
export const results = new Map();

/** Begin a result; it replaces a result of the same name. */
export function begin(heading) {
  const result = { heading, points: [], end: null };
  results.delete(heading.results);
  results.set(heading.results, result);
  for (const old of [...results.keys()].slice(0, -KEPT)) results.delete(old);
  return result;
}

/** Read a line of a result: its next point, or its end. */
export function take(result, line) {
  if (line.done) result.end = line;
  else result.points.push(pointOf(line, result.heading.prompts));
}

/** Return a point: figures as [value, lower end, upper end], and an answer per prompt. */
function pointOf(line, prompts) {
  const { mode, criterion, tau, n, faster_than_ar: faster } = line;
  const leaves = line.leaves.split(" ");
  const answers = prompts.map((prompt, index) => ({
    prompt,
    right: line.right[index] === "1",
    difference: leaves[index] === "-" ? null : Number(leaves[index]),
    text: line.wrong?.[index] ?? null, // only of wrong answers
  }));
  return {
    ...{ mode, criterion, tau, n, faster, answers },
    accuracy: [line.accuracy, line.accuracy_low, line.accuracy_high],
    tokens_per_forward: [
      line.tokens_per_forward,
      line.tokens_per_forward_low,
      line.tokens_per_forward_high,
    ],
    answers_per_second: Array(3).fill(1 / line.seconds_per_answer),
    left: line.leave_ar,
  };
}

/** Return the series of a point: its mode, and the criterion of a mode with τ. */
const seriesOf = ({ mode, criterion }) => (criterion === null ? mode : `${mode} ${criterion}`);

/** Return the points by series, each in descending order of τ; series with several τ come first. */
export function series(points) {
  const lines = new Map();
  for (const point of points) {
    const name = seriesOf(point);
    if (!lines.has(name)) lines.set(name, []);
    lines.get(name).push(point);
  }
  for (const line of lines.values()) line.sort((a, b) => (b.tau ?? 0) - (a.tau ?? 0));
  const isSingle = ([, [{ criterion }]]) => criterion === null;
  return [...lines].sort((a, b) => isSingle(a) - isSingle(b));
}

// --------------------------------------------------------------------------------------- in words

export const titleOf = ({ mode, criterion }) => {
  const title = mode === "ar" ? "AR" : (constants.modes[mode] ?? mode);
  return criterion === null ? title : `${title}, ${criterion}`;
};
export const nameOf = (point) => titleOf(point) + (point.tau === null ? "" : `, τ ${point.tau}`);

const AXES = {
  accuracy: { title: "accuracy", written: (value) => `${(100 * value).toFixed(1)}%` },
  tokens_per_forward: { title: "tokens per forward", written: (value) => value.toFixed(2) },
  answers_per_second: {
    title: "answers per second",
    written: (value) => (value < 10 ? value.toFixed(2) : value.toFixed(1)),
  },
};
export const axes = AXES;

/** Write a figure with its interval: "91.7% (85.0–96.7)". */
export function figure(point, axis) {
  const { written } = AXES[axis];
  const [value, low, high] = point[axis];
  const bare = (end) => written(end).replace("%", "");
  return low === high ? written(value) : `${written(value)} (${bare(low)}–${bare(high)})`;
}

export function pointInWords(point, across) {
  const [accuracy, speed] = ["accuracy", across].map(
    (axis) => `${figure(point, axis)} ${AXES[axis].title}`,
  );
  return `${nameOf(point)}: ${accuracy}, ${speed}, ${plural(point.n, "prompt")}`;
}
