import assert from "node:assert/strict";
import { test } from "node:test";
import { accepted } from "../../mars_demo/show/components/acceptance.js";
import { Answer } from "../../mars_demo/static/live/worker/answer.js";
import { drive, lossless, windowStrategy } from "../../mars_demo/static/live/worker/decoding.js";
import { Pace } from "../../mars_demo/static/live/worker/pace.js";
import { END, letters, losslessPasses, MASK, TinyEngine, windowPasses } from "./model.js";

const PROMPTS = ["?", "Ask", "abcabcabc", "Zebra, zebra", "what is it?", "0123456789", "MARS mars MARS"];

/** Return the passes of a strategy on a prompt, and its engine. */
async function decoded(strategy, prompt, { slots, tau = null, limit }) {
  const [engine, answer] = [new TinyEngine(), new Answer(letters, new Set([END]), limit)];
  const request = { pace: new Pace("mars", slots, null), tau: () => tau, maskId: MASK };
  const passes = [];
  for await (const pass of drive(engine, strategy(answer, prompt, request))) passes.push(pass);
  return { passes, engine };
}

const facts = ({ slots, accepted, positions, drafts, verified, groups }) => ({
  ids: slots.map(({ id }) => id),
  sources: slots.map(({ source }) => source),
  accepted,
  positions,
  ...(drafts === undefined ? {} : { drafts, verified, groups }),
});

test("the window accepts what a decoder without a cache accepts", async () => {
  for (const text of PROMPTS)
    for (const [slots, tau] of [
      [1, null],
      [5, 0],
      [5, 0.6],
      [5, 0.8],
      [9, 0.95],
      [9, 1],
    ])
      for (const limit of [1, 2, 7, 60]) {
        const prompt = letters.encodePrompt(text);
        const { passes, engine } = await decoded(windowStrategy, prompt, { slots, tau, limit });
        const expected = windowPasses(prompt, slots, tau ?? 1, limit);
        assert.deepEqual(passes.map(facts), expected, `${text} ${slots} ${tau} ${limit}`);
        assert.equal(engine.forwards, passes.length);
        for (const { tau: recorded } of passes) assert.equal(recorded, tau);
      }
});

test("lossless passes are those of a decoder without a cache", async () => {
  let copies = 0;
  for (const text of PROMPTS)
    for (const slots of [2, 5, 9])
      for (const limit of [1, 2, 3, 20, 150]) {
        const prompt = letters.encodePrompt(text);
        const { passes } = await decoded(lossless, prompt, { slots, limit });
        assert.deepEqual(
          passes.map(facts),
          losslessPasses(prompt, slots, limit),
          `${text} ${slots} ${limit}`,
        );
        copies += passes.flatMap(({ slots }) => slots).filter(({ source }) => source === "copy").length;
      }
  assert.ok(copies > 100, `${copies}`);
});

test("a score that reaches τ is accepted, and at τ = 1 the first slot alone", () => {
  assert.equal(accepted([0.1, 0.8, 0.9, 0.7, 0.9], 0.8), 3);
  assert.equal(accepted([0.1, 1, 1], 1), 1);
  assert.equal(accepted([0.1, 1, 1], null), 1);
  assert.equal(accepted([0, 0, 0], 0), 3);
  assert.equal(accepted([0.5], 0.2), 1);
});
