import assert from "node:assert/strict";
import { test } from "node:test";
import { verdict, warnings } from "../../mars_demo/show/components/stage/verdict.js";
import { closing, forwards, heading, readerOf, recordings, split } from "./records.js";

const verdictOf = (lines) => verdict(readerOf(lines).runs);
const warningsOf = (lines) => warnings(readerOf(lines).runs);
const tokens = (count) => Array.from({ length: count }, () => [1, [1]]);
const plain = (mode, passes, stop, fields) => [heading(mode, fields), ...passes, closing(stop)];

test("the verdict of a recording states its figures", () => {
  const titles = { mars: "MARS", lossless: "MARS, lossless" };
  for (const [name, lines] of recordings) {
    const [baseline, ...others] = split(lines);
    const idsOf = ({ passes }) =>
      passes.flatMap(({ slots, accepted }) => slots.slice(0, accepted).map(({ id }) => id));
    const speedOf = ({ passes, end }) => end.tokens / passes.reduce((sum, { ms }) => sum + ms, 0);
    const sentences = verdictOf(lines);
    for (const run of others) {
      const { tokens: count, forwards: passes, stop } = run.end;
      const factor = (speedOf(run) / speedOf(baseline)).toFixed(1);
      const [own, base] = [idsOf(run), idsOf(baseline)];
      const index = [...own, null].findIndex((id, at) => id !== base[at]);
      const isSame = own.join() === base.join();
      const truncated = stop === "length" ? `, truncated at ${count} tokens` : "";
      const agreement = isSame
        ? `(same answer|AR's answer)${truncated}`
        : `differs from token ${index + 1} on`;
      const facts = [
        `${(count / passes).toFixed(1)} (tokens )?per forward`,
        `${factor}× as fast`,
        agreement,
      ];
      const named = new RegExp(`(^|and )${titles[run.settings.mode]}(:| and| is| are)`);
      const said = sentences.filter((sentence) => named.test(sentence));
      assert.ok(
        said.some((sentence) => facts.every((fact) => new RegExp(fact).test(sentence))),
        `${name}: ${sentences}`,
      );
    }
  }
});

/** Return a race of AR and sides given as [mode, ms per forward, first id]; each answers with 4 tokens. */
const raceOf = (...sides) => [
  ...plain("ar", forwards(tokens(4))),
  ...sides.flatMap(([mode, ms, first = 0]) =>
    plain(
      mode,
      forwards(
        [2, 2].map((count) => [count, [1, 1], { ms, tau: 0.9 }]),
        first,
      ),
    ),
  ),
];

test("the fastest side with AR's answer is the headline", () => {
  const winner = (title, factor) =>
    `${title} is the fastest side with AR's answer: 2.0 tokens per forward, ` + `${factor}× as fast as AR.`;
  assert.deepEqual(verdictOf(raceOf(["mars", 10], ["lossless", 8])), [
    winner("MARS, lossless", "2.5"),
    "MARS: 2.0 per forward, 2.0× as fast; same answer.",
  ]);
  assert.deepEqual(verdictOf(raceOf(["mars", 8], ["lossless", 10])), [
    winner("MARS", "2.5"),
    "MARS, lossless: 2.0 per forward, 2.0× as fast; same answer.",
  ]);
  assert.deepEqual(verdictOf(raceOf(["mars", 10], ["lossless", 10.1])), [
    "MARS and MARS, lossless are the fastest sides with AR's answer: 2.0 tokens per forward, 2.0× as fast as AR.",
  ]);
  assert.deepEqual(verdictOf(raceOf(["mars", 5, 7], ["lossless", 10])), [
    winner("MARS, lossless", "2.0"),
    "MARS: 2.0 per forward, 4.0× as fast; differs from token 1 on.",
  ]);
});

test("no side is the headline unless it is faster and has AR's answer", () => {
  const sentences = (first, second, isSame) => [
    `MARS: 2.0 tokens per forward, ${first}× as fast as AR; differs from token 1 on.`,
    `MARS, lossless: 2.0 per forward, ${second}× as fast; ${isSame ? "same answer" : "differs from token 1 on"}.`,
  ];
  assert.deepEqual(verdictOf(raceOf(["mars", 5, 7], ["lossless", 20])), [
    "No faster side has AR's answer.",
    ...sentences("4.0", "1.0", true),
  ]);
  assert.deepEqual(verdictOf(raceOf(["mars", 5, 7], ["lossless", 5, 7])), [
    "No faster side has AR's answer.",
    ...sentences("4.0", "4.0", false),
  ]);
  assert.deepEqual(verdictOf(raceOf(["mars", 25, 7], ["lossless", 20])), [
    "No side is faster than AR.",
    ...sentences("0.8", "1.0", true),
  ]);
});

test("a race has no verdict before its end", () => {
  const lines = plain("ar", forwards(tokens(2)));
  assert.equal(verdictOf([...lines, heading("mars")]).length, 1);
  assert.match(verdictOf([...lines, heading("mars")])[0], /^Racing/);
  assert.match(verdictOf([...lines, heading("mars"), closing("stopped")])[0], /^Stopped before/);
});

test("a stopped race is not compared", () => {
  const [stopped, ...sentences] = verdictOf([
    ...plain("ar", forwards(tokens(4)), "stopped"),
    ...plain("mars", forwards([[2, [1, 1], { tau: 0.5 }]]), "stopped"),
  ]);
  assert.equal(stopped, "Stopped.");
  assert.deepEqual(sentences, [
    "MARS: 2.0 tokens per forward.",
    "One token per forward: 1.0 tokens per forward.",
  ]);
});

test("a baseline alone gets a summary", () => {
  assert.deepEqual(verdictOf(plain("ar", forwards(tokens(1)))), [
    "One token per forward: 1.0 tokens per forward.",
  ]);
});

test("the speed of a loop is not stated", () => {
  const passage = ["The sea was vast, ", "and the sky was wide. "];
  const looping = (mode, by) => {
    const passes = forwards(Array.from({ length: 6 / by }, () => [by, Array(by).fill(1), { tau: 0.9 }]));
    let at = 0;
    for (const { slots } of passes) for (const slot of slots) slot.text = passage[at++ % 2];
    return plain(mode, passes);
  };
  assert.deepEqual(verdictOf([...looping("ar", 1), ...looping("mars", 2)]), [
    "MARS: 2.0 tokens per forward; same answer.",
  ]);
});

test("a lossless run that differs by rounding is explained", () => {
  const near = forwards([[1, [0.48]]]);
  near[0].slots[0].top = [
    ["a", 0.48],
    ["b", 0.47],
  ];
  const other = forwards([[1, [0.48]]], 5);
  other[0].slots[0].top = [
    ["b", 0.48],
    ["a", 0.47],
  ];
  const race = () => [...plain("ar", near), ...plain("lossless", other)];
  assert.match(verdictOf(race())[0], /differs from token 1 on\.$/);
  assert.match(warningsOf(race())[0], /at token 1, two tokens were nearly tied \(48\.00% and 47\.00%\)/);
  const inexact = plain("mars", [{ ...other[0], tau: 0.9 }]);
  assert.deepEqual(warningsOf([...plain("ar", near), ...inexact]), []);
  near[0].slots[0].top = [
    ["a", 0.9],
    ["b", 0.05],
  ];
  assert.deepEqual(warningsOf(race()), []);
});

test("an equal answer of 16 bits on a GPU says that others can differ", () => {
  const race = (mode, settings) =>
    warningsOf([
      ...plain("ar", forwards(tokens(2))),
      ...plain(mode, forwards([[2, [1, 1], { tau: 0.9 }]]), "eos", settings),
    ]);
  const gpu = { device: "cuda", dtype: "bfloat16" };
  assert.match(race("lossless", gpu)[0], /in bfloat16 on a GPU, other answers can differ/);
  for (const [mode, settings] of [
    ["mars", gpu],
    ["lossless", { ...gpu, dtype: "float32" }],
    ["lossless", { ...gpu, device: "cpu" }],
    ["lossless", { device: "cpu", dtype: "int8" }],
  ])
    assert.deepEqual(race(mode, settings), []);
});

test("a forward that took far too long is reported, the prefill is not", () => {
  const slow = (at) => forwards(tokens(9)).map((pass, index) => ({ ...pass, ms: index === at ? 500 : 10 }));
  assert.match(warningsOf(plain("ar", slow(4)))[0], /one forward took 500 ms, 50 times the median/);
  assert.deepEqual(warningsOf(plain("ar", slow(0))), []);
});
