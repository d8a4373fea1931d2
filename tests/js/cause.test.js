import assert from "node:assert/strict";
import { test } from "node:test";
import { causeOf, isLoop } from "../../mars_demo/show/components/stage/cause.js";
import { closing, forwards, heading, readerOf, recordings, runOf } from "./records.js";

const causeIn = (lines) => causeOf(readerOf(lines).runs);
const sentenceOf = (...runs) => causeIn(runs.flat())?.sentence;
const plain = (mode, passes, stop, fields) => [heading(mode, fields), ...passes, closing(stop)];
const single = (count, ms = 10) => forwards(Array.from({ length: count }, () => [1, [1], { ms }]));
const ar = (count = 8) => plain("ar", single(count));

/** Return forwards at a τ of 0.9, each [accepted, slots, ms]. */
const at90 = (passes) =>
  forwards(
    passes.map(([accepted, slots, ms = 10, fields = {}]) => [
      accepted,
      Array.from({ length: slots }, (_, slot) => (slot < accepted ? 0.95 : 0.2)),
      { tau: 0.9, ms, ...fields },
    ]),
  );

/** Return a run with a text, one token per character. */
const saying = (text) => {
  const passes = single([...text].length);
  for (const [index, char] of [...text].entries()) passes[index].slots[0].text = char;
  return runOf(heading("ar"), passes);
};

test("a loop is a passage of 24 characters three times in a row", () => {
  const passage = "abcdefghijklmnopqrstuvwx";
  for (const [text, expected] of [
    [passage.repeat(3), true],
    [`Before. ${passage.repeat(3)} After.`, true],
    [`${passage}\n`.repeat(3), true],
    ["🙂".repeat(72), true],
    ["🙂".repeat(71), false],
    [passage.repeat(2), false],
    [passage.slice(1).repeat(4), false],
    [`${passage}.${passage}!${passage}?`, false],
  ])
    assert.equal(isLoop(saying(text)), expected, text);
});

test("a looping answer comes before all other causes", () => {
  const passes = at90([
    [3, 3],
    [3, 3],
  ]);
  for (const slot of passes.flatMap(({ slots }) => slots)) slot.text = "a passage of 24 characters ";
  const { sentence, offers } = causeIn([...ar(7), ...plain("mars", passes)]);
  assert.match(sentence, /^The answer repeats itself\./);
  assert.ok(offers);
});

test("a difference names the slot, its score and τ", () => {
  const passes = at90([
    [2, 4],
    [3, 4],
    [3, 4],
  ]);
  passes[1].slots[2].id = 99;
  assert.equal(
    sentenceOf(ar(), plain("mars", passes)),
    "Slot 3 reached τ 0.90 (confidence 95.00%), but AR continues differently: the answer may be wrong.",
  );
  passes[1].slots[0].id = 98;
  assert.match(sentenceOf(ar(), plain("mars", passes)), /^After the same text, AR continues differently/);
  assert.equal(sentenceOf(ar(), plain("mars", passes, "eos", { sampling: { seed: 1 } })), undefined);
  assert.equal(sentenceOf(ar(), plain("lossless", passes)), undefined);
});

test("few tokens per forward are explained by the second slot", () => {
  const passes = at90([...Array(6).fill([1, 4]), [2, 4]]);
  const start = "The second slot reached τ in 1 of";
  const end = ", as in free text or on prompts unlike the training data.";
  assert.equal(sentenceOf(ar(), plain("mars", passes)), `${start} 7 forwards${end}`);
  const adapted = at90([...Array(6).fill([1, 1]), [2, 4]]);
  assert.equal(sentenceOf(ar(), plain("mars", adapted)), `${start} the 1 forward that had one${end}`);
  assert.equal(
    sentenceOf(ar(), plain("mars", at90(Array(8).fill([1, 1])))),
    "No forward predicted a second token.",
  );
  const drafting = at90([...Array(6).fill([1, 4, 10, { drafts: 1 }]), [2, 4, 10, { drafts: 1 }]]);
  assert.match(sentenceOf(ar(), plain("lossless", drafting)), /^The second token was accepted in 1 of 7/);
});

test("a τ of 1 explains itself", () => {
  const passes = forwards(Array(8).fill([1, [1, 1], { tau: 1 }]));
  assert.equal(sentenceOf(ar(), plain("mars", passes)), "At τ = 1, each forward accepts one token.");
});

test("a gain in forwards without one in time is explained by the cost of a forward", () => {
  const passes = at90([[2, 9], ...Array(3).fill([2, 9, 19])]);
  for (const pass of passes) pass.positions = 9;
  assert.equal(
    sentenceOf(ar(), plain("mars", passes)),
    "2.0 tokens per forward, but a forward of 9 positions takes 1.9 times as long as one of 1.",
  );
});

test("a long prefill is named", () => {
  const slow = (passes) => passes.map((pass, index) => ({ ...pass, ms: index ? 10 : 300 }));
  const mars = plain("mars", slow(at90(Array(4).fill([2, 4]))));
  assert.equal(
    sentenceOf(plain("ar", slow(single(8))), mars),
    "The prefill took 91% of the time, and MARS does not shorten it.",
  );
});

test("prompt lookup is named where it did most of the work", () => {
  const passes = at90(Array(2).fill([4, 4]));
  for (const { slots } of passes) for (const slot of slots.slice(1)) slot.source = "copy";
  const { sentence, offers } = causeIn([...ar(), ...plain("lossless", passes)]);
  assert.equal(sentence, "Prompt lookup copied 6 of 8 tokens from earlier text.");
  assert.ok(!offers);
});

test("a gain needs no explanation, and neither do unfinished or single runs", () => {
  const fast = at90(Array(2).fill([4, 4]));
  assert.equal(causeIn([...ar(), ...plain("mars", fast)]), null);
  const slow = at90(Array(8).fill([1, 4]));
  assert.equal(causeIn([...ar(), heading("mars"), ...slow]), null);
  assert.equal(causeIn([...ar(), ...plain("mars", slow, "stopped")]), null);
  assert.equal(causeIn(plain("mars", slow)), null);
  assert.equal(causeIn(ar()), null);
  assert.equal(causeIn([]), null);
});

test("among several sides the cause names its own", () => {
  const [slow, fast] = [at90(Array(8).fill([1, 4])), at90(Array(2).fill([4, 4]))];
  assert.match(sentenceOf(ar(), plain("mars", slow), plain("lossless", fast)), /^MARS: the second slot/);
});

test("a recording has a cause if its answer differs or it gained little", () => {
  for (const [name, lines] of recordings) {
    const [baseline, ...others] = Object.values(readerOf(lines).runs);
    const isTrouble = (run) =>
      run.speed / baseline.speed < 1.2 || (run.mode.uses_tau && run.text !== baseline.text);
    const cause = causeIn(lines);
    assert.equal(Boolean(cause?.offers), others.some(isTrouble), `${name}: ${cause?.sentence}`);
  }
});
