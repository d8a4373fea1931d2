import assert from "node:assert/strict";
import { test } from "node:test";
import { acceptedAt } from "../../mars_demo/show/components/acceptance.js";
import { fieldsOf, schemaOf, TYPES } from "../../mars_demo/show/components/shape/schema.js";
import { describe, slotNumber } from "../../mars_demo/show/components/stage/passes.js";
import { reasons } from "../../mars_demo/show/components/stage/reasons.js";
import { costPoints, slotsOf } from "../../mars_demo/show/components/stage/speed.js";
import { verdict } from "../../mars_demo/show/components/stage/verdict.js";
import { closing, forwards, heading, readerOf, runOf } from "./records.js";

const GRAMMAR = { grammar: { kind: "json", text: "{}" }, prompt_tokens: 20 };

/** Return forwards whose slots are written as scores, forced ones as "f". */
function written(passes) {
  const lines = passes.map(([accepted, slots, fields]) => [
    accepted,
    slots.map((score) => (score === "f" ? 1 : score)),
    fields,
  ]);
  const made = forwards(lines);
  for (const [number, [, slots]] of passes.entries())
    for (const [index, score] of slots.entries())
      made[number].slots[index].source = score === "f" ? "forced" : "model";
  return made;
}

// Three forced tokens, then a window of 4 slots, of which 2 are accepted; a window that is accepted and
// followed by two forced tokens; the end.
const MARS = written([
  [5, ["f", "f", "f", 0.9, 0.8, 0.3, 0.2], { positions: 26, tau: 0.5, ms: 30 }],
  [6, [0.9, "f", 0.8, 0.7, "f", "f"], { positions: 5, tau: 0.5, ms: 14 }],
  [2, [0.9, "f"], { positions: 9, tau: 0.5, ms: 14, stop: "eos" }],
]);
const AR = written([
  [4, ["f", "f", "f", 0.9], { positions: 23, ms: 30 }],
  [3, [0.9, "f", "f"], { positions: 1, ms: 10 }],
  ...Array.from({ length: 5 }, (_, n) => [1, [0.9], { positions: n ? 1 : 3, ms: 10 }]),
  [1, [0.9], { positions: 1, ms: 10, stop: "eos" }],
]);

test("a field list is a schema and back", () => {
  const fields = Object.keys(TYPES).map((type, index) => ({ name: `field ${index}`, type }));
  assert.deepEqual(fieldsOf(schemaOf(fields)), fields);
  assert.deepEqual(fieldsOf(JSON.stringify(JSON.parse(schemaOf(fields)))), fields);
  const schema = JSON.parse(schemaOf([...fields, { name: "", type: "text" }]));
  assert.deepEqual(schema.required, Object.keys(schema.properties));
  assert.equal(schema.required.length, fields.length);
});

test("other schemas are no field lists", () => {
  for (const text of ["", "{", "3", "null", '{"type": "string"}', '{"type": "object", "properties": {}}'])
    assert.equal(fieldsOf(text), null, text);
  const limited = schemaOf([{ name: "a", type: "text" }]).replace('"string"', '"string", "maxLength": 3');
  assert.equal(fieldsOf(limited), null);
});

test("tokens that the grammar forces are not slots", () => {
  const run = runOf(heading("mars", GRAMMAR), MARS);
  assert.deepEqual(
    slotsOf(run).map(({ had, accepted }) => [had, accepted]),
    [
      [3, 3],
      [3, 3],
      [2, 1],
      [2, 1],
    ],
  );
  assert.deepEqual(slotsOf(runOf(heading("ar", GRAMMAR), AR)), [{ had: 8, accepted: 8 }]);
  assert.deepEqual(
    [0, 3, 4].map((index) => slotNumber(run.passes[0], index)),
    [-2, 1, 2],
  );
});

test("another τ leaves forced tokens accepted", () => {
  const at = (tau) => MARS.map((pass) => acceptedAt(pass, tau));
  assert.deepEqual(at(0.5), [5, 6, 2]);
  assert.deepEqual(at(0.85), [4, 2, 2]);
  assert.deepEqual(at(1), [4, 2, 2]);
  assert.deepEqual(at(0.1), [7, 6, 2]);
});

test("the verdict counts forced tokens, and calls a cut answer unfinished", () => {
  const race = (stop, grammar = GRAMMAR) =>
    verdict(readerOf([heading("mars", grammar), ...MARS, closing(stop)]).runs)[0];
  assert.equal(race("eos"), "MARS: 4.3 tokens per forward, 2.3 of them forced.");
  const both = (kind) => {
    const settings = { ...GRAMMAR, grammar: { kind, text: "x" } };
    const lines = ["ar", "mars"].flatMap((mode) => [heading(mode, settings), ...MARS, closing("length")]);
    return verdict(readerOf(lines).runs)[0];
  };
  assert.match(both("json"), /unfinished \(13 tokens, not valid JSON\)\.$/);
  assert.match(both("regex"), /unfinished \(13 tokens\)\.$/);
});

test("a side is described with its shape", () => {
  const run = runOf(heading("mars", GRAMMAR), MARS);
  assert.equal(describe(run, 0.5), "τ 0.50, 4 slots, JSON");
});

test("the predicted speed-up counts what the grammar gives AR", () => {
  const [mars, ar] = [runOf(heading("mars", GRAMMAR), MARS), runOf(heading("ar", GRAMMAR), AR)];
  // 13 tokens in 3 forwards, whose positions cost 14 / 10; AR has 13 in 8, which cost as much as 1 position.
  const [, predicted] = reasons(mars, ar, costPoints(mars, ar));
  assert.match(predicted, /^Predicted: 3\.1 ÷ 1\.\d+ = 1\.9\d?× as fast as AR, .* gives 1\.63 tokens/);
  assert.match(reasons(ar, ar, null)[0], /1\.63 tokens per forward/);
});
