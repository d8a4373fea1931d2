import assert from "node:assert/strict";
import { test } from "node:test";
import {
  costPoints,
  curveThrough,
  predicted,
  sizesOf,
  slotsOf,
  timesOf,
} from "../../mars_demo/show/components/stage/speed.js";
import { forwards, heading, recordedRuns, runOf } from "./records.js";

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
const near = (value, expected, message) =>
  assert.ok(
    Math.abs(value - expected) <= 1e-9 * Math.max(1, Math.abs(expected)),
    message ?? `${value}, not ${expected}`,
  );

/** Return the middle of the values: that with as many smaller as larger ones. */
function middle(values) {
  const ranked = [...values].sort((a, b) => a - b);
  return (ranked[Math.floor((values.length - 1) / 2)] + ranked[Math.ceil((values.length - 1) / 2)]) / 2;
}

/** Return a run whose forwards after the prefill have these [positions, ms]. */
function timed(mode, sizes) {
  const lines = [[100, 50], ...sizes].map(([positions, ms]) => [1, [1], { positions, ms }]);
  return runOf(heading(mode), forwards(lines));
}

test("sizes are the medians of the forwards after the prefill", () => {
  for (const { run, raw } of recordedRuns()) {
    const later = raw.passes.slice(1);
    const positions = [...new Set(later.map((pass) => pass.positions))].sort((a, b) => a - b);
    const expected = positions.map((size) => {
      const times = later.filter((pass) => pass.positions === size).map(({ ms }) => ms);
      return { positions: size, count: times.length, ms: middle(times) };
    });
    assert.deepEqual(sizesOf(run), expected);
  }
});

test("without recorded costs they are those of the race", () => {
  const run = timed("mars", [
    [3, 9],
    [5, 14],
    [7, 11],
    [9, 10],
  ]);
  const baseline = timed("ar", [
    [1, 8],
    [1, 30],
    [1, 7],
  ]);
  assert.deepEqual(costPoints(run, baseline), [
    [1, 8],
    [6, 11],
  ]);
  assert.deepEqual(costPoints(timed("mars", [[1, 9]]), baseline), [[1, 8]]);
  for (const single of [null, timed("mars", [[3, 9]])]) assert.equal(costPoints(run, single), null);
});

test("recorded costs are used as they are", () => {
  for (const { run, raw } of recordedRuns())
    if (raw.settings.costs) assert.deepEqual(costPoints(run, null), raw.settings.costs);
});

test("the curve is linear between its points and beyond them", () => {
  const cost = curveThrough([
    [2, 10],
    [4, 20],
    [8, 24],
  ]);
  assert.deepEqual([1, 2, 3, 4, 6, 8, 12].map(cost), [10, 10, 15, 20, 22, 24, 28]);
  assert.equal(curveThrough([[1, 7]])(100), 7);
});

test("the predicted speed-up divides tokens per forward by relative cost", () => {
  const cost = (k) => 5 + k;
  for (const { run, raw } of recordedRuns()) {
    const sizes = raw.passes.slice(1).map(({ positions }) => positions);
    const prediction = predicted(run, cost);
    const ratio = mean(sizes.map((k) => 5 + k)) / 6;
    near(prediction.positions, mean(sizes));
    near(prediction.ratio, ratio);
    near(prediction.factor, raw.end.tokens / raw.end.forwards / ratio);
  }
  assert.equal(predicted(runOf(heading("mars"), forwards([[1, [1]]])), cost), null);
});

test("slots count the forwards that had and that accepted them", () => {
  for (const { run, raw } of recordedRuns()) {
    if (raw.settings.grammar) continue; // see grammar.test.js
    const decided = ({ stop, accepted, drafts, slots }) => {
      if (stop) return accepted;
      return raw.settings.mode === "lossless" ? drafts + 1 : slots.length;
    };
    for (const [index, { had, accepted }] of slotsOf(run).entries()) {
      assert.equal(had, raw.passes.filter((pass) => decided(pass) > index).length);
      assert.equal(accepted, raw.passes.filter((pass) => pass.accepted > index).length);
    }
    assert.equal(slotsOf(run).length, Math.max(...raw.passes.map(decided)));
  }
});

test("times add up to the run", () => {
  for (const { run, raw } of recordedRuns()) {
    const [first, ...later] = raw.passes;
    const total = (key) => later.reduce((sum, pass) => sum + pass[key], 0);
    const { prefill, others, parts } = timesOf(run);
    assert.equal(prefill, first.ms);
    near(others, total("ms"));
    if (later.some((pass) => pass.model_ms === undefined)) assert.equal(parts, null);
    else {
      near(parts.model, total("model_ms"));
      near(parts.read, total("read_ms"));
      near(prefill + parts.model + parts.read + parts.rest, run.ms);
    }
  }
});
