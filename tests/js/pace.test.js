import assert from "node:assert/strict";
import { test } from "node:test";
import { Answer } from "../../mars_demo/static/live/worker/answer.js";
import { drive, lossless, windowStrategy } from "../../mars_demo/static/live/worker/decoding.js";
import { costOf, measured, ofLossless, ofWindow, Pace } from "../../mars_demo/static/live/worker/pace.js";
import { END, letters, MASK, TinyEngine } from "./model.js";

const [FLAT, STEEP] = [
  [
    [1, 5],
    [5, 5.4],
    [9, 5.8],
  ],
  [
    [1, 10],
    [5, 18],
    [9, 26],
  ],
];
const HALF = [
  [1, 1],
  [2, 1.25],
]; // 12.5 steps
const near = (one, other) => assert.ok(Math.abs(one - other) < 1e-9, `${one} ${other}`);

test("forwards of three sizes are measured after the same text", async () => {
  const sizes = [];
  class Measured extends TinyEngine {
    forward(layout, first) {
      sizes.push([layout.ids.length, layout.past]);
      return super.forward(layout, first);
    }
  }
  const costs = await measured(new Measured(), 8);
  assert.deepEqual(
    costs.map(([positions]) => positions),
    [1, 5, 9],
  );
  assert.ok(costs.every(([, ms]) => ms > 0));
  const [before, ...others] = sizes;
  assert.deepEqual(before, [64, 0]);
  for (const [index, size] of others.entries()) assert.deepEqual(size, [[1, 5, 9][index % 3], 64]);
});

test("the cost of positions is the line through the measured ones, and never falls", () => {
  const between = [
    [1, 5.5],
    [5, 9],
    [9, 12.4],
  ];
  const falling = [
    [1, 5],
    [5, 4],
    [9, 3],
  ];
  for (const [costs, slope] of [
    [FLAT, 0.02],
    [STEEP, 0.2],
    [between, 0.16],
    [falling, 0],
    [HALF, 0.24],
  ])
    for (const k of [1, 6, 17]) near(costOf(costs)(k), 1 + (k - 1) * slope);
});

test("expected speeds equal an enumeration of all outcomes", () => {
  for (const costs of [FLAT, STEEP])
    for (const rate of [0.1, 0.5, 0.9])
      for (const slots of [1, 2, 4]) {
        const [cost, masks] = [costOf(costs), slots - 1];
        let [tokens, ms, cycle, cycleMs] = [0, 0, 0, 0];
        for (let outcome = 0; outcome < 2 ** masks; outcome++) {
          const bits = Array.from({ length: masks }, (_, place) => (outcome >> place) & 1);
          const rejected = bits.indexOf(0);
          const count = rejected < 0 ? masks : rejected;
          const chance = bits.reduce((product, bit) => product * (bit ? rate : 1 - rate), 1);
          tokens += chance * (count + 1);
          ms += chance * cost(count + 1 + masks);
          const again = count < masks ? 1 : 0; // a forward without drafts follows
          cycle += chance * (count + 1 + again);
          cycleMs += chance * (cost(1 + 2 * masks) + again * cost(1 + masks));
        }
        near(ofWindow(slots, rate, cost), tokens / ms);
        near(ofLossless(slots, rate, cost), cycle / cycleMs);
      }
});

test("a window widens while masks are accepted and narrows while they are not; without costs it stays", () => {
  for (const mode of ["mars", "lossless"]) {
    const [good, bad, fixed] = [STEEP, STEEP, null].map((costs) => new Pace(mode, 9, costs));
    for (let forward = 0; forward < 40; forward++) {
      good.saw(good.masks, good.masks);
      bad.saw(0, bad.masks);
      fixed.saw(0, 8);
    }
    assert.ok(good.masks > 4 && bad.masks < 2, `${good.masks} ${bad.masks}`);
    assert.equal(fixed.masks, 8);
  }
  assert.equal(new Pace("ar", 1, STEEP).masks, 0);
});

test("answers with adaptive windows: those of one token at a time if verified, in several widths", async () => {
  const answered = async (strategy, mode, tau) => {
    const answer = new Answer(letters, new Set([END]), 80);
    const pace = new Pace(mode, mode === "ar" ? 1 : 9, STEEP);
    const request = { pace, tau: () => tau, maskId: MASK };
    const widths = new Set();
    const prompt = letters.encodePrompt("abcabcabc");
    for await (const { positions } of drive(new TinyEngine(), strategy(answer, prompt, request)))
      widths.add(positions);
    return { ids: answer.ids, widths: widths.size };
  };
  const ar = await answered(windowStrategy, "ar", null);
  const verified = await answered(lossless, "lossless", null);
  assert.deepEqual(verified.ids, ar.ids);
  assert.ok(verified.widths > 2);
  assert.ok((await answered(windowStrategy, "mars", 0.6)).widths > 2);
});
