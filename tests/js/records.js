// Records for the tests: the recorded runs of assets/runs, and small ones made by hand.

import { readdirSync, readFileSync } from "node:fs";
import { Reader } from "../../mars_demo/show/components/stage/run.js";

const FOLDER = new URL("../../assets/runs/", import.meta.url);

/** The parsed lines of each recording, by file name. */
export const recordings = new Map(
  readdirSync(FOLDER)
    .filter((name) => name.endsWith(".jsonl"))
    .map((name) => [name, linesOf(readFileSync(new URL(name, FOLDER), "utf-8"))]),
);

/** Parse JSON lines. */
export function linesOf(text) {
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

/** Split the lines of a record into runs: {settings, passes, end}. */
export function split(lines) {
  const runs = [];
  for (const line of lines) {
    if ("run" in line) runs.push({ settings: line, passes: [], end: null });
    else if (line.done) runs.at(-1).end = line;
    else runs.at(-1).passes.push(line);
  }
  return runs;
}

/** Return a reader of these lines. */
export function readerOf(lines) {
  const reader = new Reader();
  for (const line of lines) reader.take(JSON.stringify(line));
  return reader;
}

/** Return all recorded runs as pairs of a `Run` and its lines. */
export const recordedRuns = () =>
  [...recordings].flatMap(([name, lines]) => {
    const runs = Object.values(readerOf(lines).runs);
    return split(lines).map((raw, index) => ({ name, run: runs[index], raw }));
  });

/** Return the first line of a run. */
export const heading = (mode, fields = {}) => ({
  run: `${mode}-run`,
  mode,
  model: "tiny",
  window: 4,
  tau: null,
  prompt: "?",
  device: "cpu",
  dtype: "float32",
  ...fields,
});

/** Return the closing line of a run. */
export const closing = (stop = "eos") => ({ done: true, stop });

/** Return a line per forward: [accepted, scores, further fields]. Ids count up from `first`. */
export function forwards(passes, first = 0) {
  let id = first;
  return passes.map(([accepted, scores, fields = {}], index) => {
    const slots = scores.map((score, slot) => ({
      id: id + slot,
      text: ` w${id + slot}`,
      score,
      top: [[` w${id + slot}`, score]],
    }));
    id += accepted;
    return { pass: index + 1, tau: null, positions: 1, ms: 10, accepted, slots, stop: null, ...fields };
  });
}

/** Return the `Run` of a heading and forwards. */
export function runOf(settings, passes, stop = "eos") {
  const reader = readerOf([settings, ...passes, closing(stop)]);
  return Object.values(reader.runs)[0];
}
