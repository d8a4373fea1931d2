import assert from "node:assert/strict";
import { test } from "node:test";
import { acceptedAt } from "../../mars_demo/show/components/acceptance.js";
import { earlierGuesses, firstDifference } from "../../mars_demo/show/components/stage/passes.js";
import { recordedRuns } from "./records.js";

test("at its own τ, a forward would have accepted what it did", () => {
  for (const { name, run } of recordedRuns()) {
    if (run.mode.name !== "mars") continue;
    for (const pass of run.passes) assert.equal(acceptedAt(pass, pass.tau), pass.accepted, name);
  }
});

test("a higher τ never accepts more, and τ = 1 accepts one token", () => {
  for (const { run } of recordedRuns()) {
    if (run.mode.name !== "mars") continue;
    for (const pass of run.passes) {
      const counts = [0, 0.3, 0.6, 0.9, 0.99, 1].map((tau) => acceptedAt(pass, tau));
      assert.deepEqual(
        counts,
        counts.toSorted((a, b) => b - a),
      );
      assert.equal(counts.at(-1), 1);
    }
  }
});

test("earlier guesses are the slots that earlier forwards had for a token", () => {
  for (const { run } of recordedRuns()) {
    for (const index of run.ids.keys()) {
      const guesses = [];
      let begin = 0; // the answer's tokens before the forward
      for (const { pass, slots, accepted } of run.passes) {
        if (begin + accepted > index) break;
        if (index - begin < slots.length) guesses.push([pass, index - begin + 1, slots[index - begin].id]);
        begin += accepted;
      }
      assert.deepEqual(
        earlierGuesses(run, index).map(({ number, slot, guess }) => [number, slot, guess.id]),
        guesses,
      );
    }
  }
});

test("the first difference may be the end of the shorter answer", () => {
  assert.equal(firstDifference([1, 2, 3], [1, 2, 3]), null);
  assert.equal(firstDifference([1, 2, 3], [1, 4, 3]), 1);
  assert.equal(firstDifference([1, 2], [1, 2, 3]), 2);
  assert.equal(firstDifference([], [1]), 0);
});
