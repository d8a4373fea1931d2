// What has been measured: results, each with its heading, its points and its end. No drawing here.

import { constants } from "../component.js";
import { plural } from "../words.js";

const KEPT = 6; // results of this visit that can be gone back to

/** Results by name, the newest last. */
export const results = new Map();

/** A result begins; one of the same name is replaced. */
export function begin(heading) {
  const result = { heading, points: [], end: null };
  results.delete(heading.results);
  results.set(heading.results, result);
  for (const old of [...results.keys()].slice(0, -KEPT)) results.delete(old);
  return result;
}

/** A line of a result: its next point, or its end. */
export function take(result, line) {
  if (line.done) result.end = line;
  else result.points.push(pointOf(line, result.heading.prompts));
}

/** A point as it is drawn: figures as [value, lower end, upper end], and an answer per prompt. */
function pointOf(line, prompts) {
  const { mode, criterion, tau, n, faster_than_ar: faster } = line;
  const leaves = line.leaves.split(" ");
  const answers = prompts.map((prompt, index) => ({
    prompt,
    right: line.right[index] === "1",
    parted: leaves[index] === "-" ? null : Number(leaves[index]),
    text: line.wrong?.[index] ?? null, // of wrong answers alone
  }));
  return {
    ...{ mode, criterion, tau, n, faster, answers },
    accuracy: [line.accuracy, line.accuracy_low, line.accuracy_high],
    tokens_per_forward: [line.tokens_per_forward, line.tokens_per_forward_low, line.tokens_per_forward_high],
    answers_per_second: Array(3).fill(1 / line.seconds_per_answer),
    left: line.leave_ar,
  };
}

const ORDER = ["probability", "entropy", "margin"];

/** What a point belongs to: a criterion of a mode that has a τ, or the mode alone. */
const seriesOf = ({ mode, criterion }) => (criterion === null ? mode : `${mode} ${criterion}`);

/** The points of a result by series, each from the largest τ down: those with a line first. */
export function series(points) {
  const found = new Map();
  for (const point of points) {
    const name = seriesOf(point);
    if (!found.has(name)) found.set(name, []);
    found.get(name).push(point);
  }
  const place = ([, [{ criterion }]]) => (criterion === null ? ORDER.length : ORDER.indexOf(criterion));
  for (const line of found.values()) line.sort((a, b) => (b.tau ?? 0) - (a.tau ?? 0));
  return [...found].sort((a, b) => place(a) - place(b));
}

// --------------------------------------------------------------------------------------- in words

export const titleOf = ({ mode, criterion }) => {
  const title = mode === "ar" ? "AR" : constants.modes[mode] ?? mode;
  return criterion === null ? title : `${title}, ${criterion}`;
};
export const nameOf = (point) => titleOf(point) + (point.tau === null ? "" : `, τ ${point.tau}`);

const AXES = {
  accuracy: { title: "right answers", written: (value) => `${(100 * value).toFixed(1)}%` },
  tokens_per_forward: { title: "tokens per forward", written: (value) => value.toFixed(2) },
  answers_per_second: { title: "answers per second", written: (value) => (value < 10 ? value.toFixed(2) : value.toFixed(1)) },
};
export const axes = AXES;

/** A figure with its interval: "91.7% (85.0–96.7)". */
export function figure(point, axis) {
  const { written } = AXES[axis];
  const [value, low, high] = point[axis];
  const bare = (end) => written(end).replace("%", "");
  return low === high ? written(value) : `${written(value)} (${bare(low)}–${bare(high)})`;
}

export function pointInWords(point, across) {
  const [right, speed] = ["accuracy", across].map((axis) => `${figure(point, axis)} ${AXES[axis].title}`);
  return `${nameOf(point)}: ${right}, ${speed}, ${plural(point.n, "prompt")}`;
}
