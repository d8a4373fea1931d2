import assert from "node:assert/strict";
import { test } from "node:test";
import { extent, placeLabels, ticks } from "../../mars_demo/ui/components/frontier/scales.js";

const RANGES = [
  [0, 1],
  [0.62, 0.97],
  [1, 3.4],
  [0.03, 0.041],
  [-5, 120],
  [12.3, 98765],
];

/** A generator of numbers from 0 to 1, the same in each run (mulberry32). */
function randoms(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

test("ticks are the multiples of a round step inside a range", () => {
  for (const [low, high] of RANGES)
    for (const count of [4, 5, 8]) {
      const marks = ticks(low, high, count);
      const step = marks[1] - marks[0];
      const digits = step / 10 ** Math.floor(Math.log10(step) + 1e-9);
      assert.ok(
        [1, 2, 2.5, 5].some((round) => Math.abs(digits - round) < 1e-6),
        `step ${step}`,
      );
      assert.ok(step >= (high - low) / count - 1e-9);
      assert.ok(marks.length <= count + 1);
      for (const mark of marks) {
        assert.ok(mark >= low - 1e-6 * step && mark <= high + 1e-6 * step);
        assert.ok(Math.abs(mark / step - Math.round(mark / step)) < 1e-6);
      }
      assert.ok(marks[0] - step < low && marks.at(-1) + step > high, "no multiple is left out");
    }
});

test("known ticks", () => {
  assert.deepEqual(ticks(0, 10, 5), [0, 2, 4, 6, 8, 10]);
  assert.deepEqual(ticks(1, 4, 6), [1, 1.5, 2, 2.5, 3, 3.5, 4]);
});

test("an extent has margins, a least width and limits", () => {
  assert.deepEqual(extent([10, 20, 15], 1, 0, Infinity), [9.4, 20.6]);
  assert.deepEqual(extent([5], 2, 0, Infinity), [4, 6]);
  assert.deepEqual(extent([0.99, 1], 0.1, 0, 1), [0.945, 1]);
});

test("labels leave marks and each other free and stay inside the frame", () => {
  const random = randoms(7);
  const frame = { x: 0, y: 0, width: 400, height: 200 };
  const apart = (a, b) =>
    a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
  for (let round = 0; round < 50; round++) {
    const points = Array.from({ length: 12 }, () => ({ x: 400 * random(), y: 200 * random() }));
    const marks = points.map(({ x, y }) => ({ x: x - 5, y: y - 5, width: 10, height: 10 }));
    const labels = points.map((point) => ({ ...point, width: 20 + 40 * random(), height: 14 }));
    const boxes = placeLabels(labels, marks, frame);
    assert.equal(boxes.length, labels.length);
    const placed = boxes.filter(Boolean);
    for (const [index, box] of placed.entries()) {
      assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.width <= 400 && box.y + box.height <= 200);
      for (const other of [...marks, ...placed.slice(index + 1)]) assert.ok(apart(box, other));
    }
  }
});

test("a label without room is left out", () => {
  const label = { x: 50, y: 50, width: 30, height: 10 };
  const frame = { x: 0, y: 0, width: 100, height: 100 };
  assert.ok(placeLabels([label], [], frame)[0]);
  assert.deepEqual(placeLabels([label], [frame], frame), [null]);
  assert.deepEqual(placeLabels([label], [], { ...frame, width: 10 }), [null]);
});
