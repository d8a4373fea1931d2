import assert from "node:assert/strict";
import { test } from "node:test";
import { PromptLookup } from "../../mars_demo/static/live/worker/prompt_lookup.js";

const readings = (tokens, score = 0.9) =>
  tokens.map((token) => ({ token, score, candidates: [token], probabilities: [score], source: "mask" }));
const tokensOf = (draft) => draft.map(({ token }) => token);

test("a draft continues the last occurrence of the longest match", () => {
  const lookup = new PromptLookup([5, 6, 7, 8, 9, 1, 6, 7, 8, 4, 2, 5, 6, 7]);
  const draft = lookup.nextDraft(readings([8]), []); // 5 6 7 8 occurs earlier than 6 7 8
  const chance = 4 / 6;
  assert.deepEqual(draft.slice(0, 2), [
    { token: 9, score: chance, candidates: [], probabilities: [], source: "copy" },
    { token: 1, score: chance, candidates: [], probabilities: [], source: "copy" },
  ]);
  assert.equal(draft.length, 3); // the largest n with chance^n ≥ 1/4
});

test("a draft that reaches the end of the text starts again", () => {
  const lookup = new PromptLookup([1, 2, 1, 2, 1, 2, 1, 2, 1]);
  assert.deepEqual(tokensOf(lookup.nextDraft(readings([2]), [])), [1, 2, 1, 2, 1, 2]);
});

test("without a match, or with better masks, the masks draft", () => {
  const masked = readings([3, 3, 3, 3], 0.99);
  assert.equal(new PromptLookup([1, 2, 3, 4]).nextDraft(readings([5]), masked), masked);
  assert.equal(new PromptLookup([1, 2, 3, 4, 1, 2]).nextDraft(readings([3]), masked), masked);
  const unlikely = readings([3, 3], 0.3);
  assert.deepEqual(
    tokensOf(new PromptLookup([1, 2, 3, 4, 1, 2]).nextDraft(readings([3]), unlikely)),
    [4, 1],
  );
});

test("the chance of a match follows its verified drafts, and no others", () => {
  const lookup = new PromptLookup([1, 2, 3, 4, 5, 6, 7, 8, 1, 2]);
  assert.equal(lookup.nextDraft(readings([3]), [])[0].score, 3 / 5);
  // Two drafts were sent, the second one is wrong: 1 of 2 accepted, and the model's own token 9.
  assert.deepEqual(lookup.nextDraft(readings([4, 9]), [], 2), []);
  const masked = readings([2, 3], 0.9);
  assert.equal(lookup.nextDraft(readings([1]), masked), masked);
  // The masks' drafts are accepted; the match of 1 2 3 is still 1 of 2 after the prior 3 of 5.
  const [{ score }] = lookup.nextDraft(readings([2, 3]), [], 2);
  assert.equal(score, (3 + 1) / (3 + 2 + 2));
});
