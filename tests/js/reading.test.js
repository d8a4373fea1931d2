import assert from "node:assert/strict";
import { test } from "node:test";
import { largest, read } from "../../mars_demo/static/live/worker/reading.js";

const ROWS = [
  [0.5, 2, -1, 2.5, 0, 1, -3],
  [0, 0, 0, 0, 0, 0, 0],
  [800, 799, -800, 0, 1, 2, 3],
  [-500, -501, -502, -503, -504, -505, -506],
];

/** Return softmax(logits), in order: exp(a) / Σ exp(b) is 1 / Σ exp(b - a). */
const softmax = (logits) => logits.map((a) => 1 / logits.reduce((sum, b) => sum + Math.exp(b - a), 0));

const isNear = (one, other) => Math.abs(one - other) < 1e-9;

test("readings are the most probable tokens with their probabilities", () => {
  const readings = read(Float32Array.from(ROWS.flat()), ROWS.length);
  for (const [index, { token, score, candidates, probabilities, source }] of readings.entries()) {
    const p = softmax(ROWS[index]);
    const sorted = p.toSorted((a, b) => a - b);
    assert.equal(p[token], sorted.at(-1));
    assert.ok(isNear(score, sorted.at(-1)), `${ROWS[index]}: ${score}`);
    assert.equal(source, "model");
    assert.equal(candidates[0], token);
    assert.equal(new Set(candidates).size, 5);
    for (const [place, candidate] of candidates.entries()) {
      assert.ok(isNear(probabilities[place], p[candidate]));
      assert.ok(isNear(probabilities[place], sorted.at(-1 - place)));
    }
  }
});

test("the largest values come first, and of equal ones the first one", () => {
  assert.deepEqual(largest(Float32Array.of(3, 5, 5, 1, 4, 5), 4), [1, 2, 5, 4]);
  assert.deepEqual(largest(Float32Array.of(2, 1), 5), [0, 1]);
  const values = Float32Array.from({ length: 500 }, (_, index) => (index * 7919) % 503);
  const sorted = [...values.keys()].sort((a, b) => values[b] - values[a]).slice(0, 5);
  assert.deepEqual(largest(values, 5), sorted);
});

test("values that are not numbers are refused", () => {
  for (const broken of [Number.NaN, Number.POSITIVE_INFINITY])
    assert.throws(() => read(Float32Array.of(1, broken, 2, 0, 0, 0), 1), /not numbers/);
});
