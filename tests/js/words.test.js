// Numbers in words.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { line } from "../../mars_demo/show/components/record.js";
import { fixed, percent, seconds } from "../../mars_demo/show/components/words.js";

const PYTHON = `
import json, sys
print(json.dumps([[f"{x:.{d}f}", round(float(x), d)] for x, d in json.load(sys.stdin)]))`;

test("numbers have the decimals that Python gives them, also halves", () => {
  const cases = [
    [0, 1],
    [1.005, 2],
    [2.675, 2],
    [0.1 + 0.2, 6],
  ];
  for (let digits = 0; digits <= 6; digits++)
    for (let odd = -81; odd <= 81; odd += 2) cases.push([odd / 2 ** (digits + 1), digits]);
  const output = execFileSync("python3", ["-c", PYTHON], {
    input: JSON.stringify(cases),
    encoding: "utf-8",
  });
  for (const [index, [text, rounded]] of JSON.parse(output).entries()) {
    const [x, digits] = cases[index];
    assert.equal(fixed(x, digits), text);
    if (digits === 6) assert.equal(JSON.parse(line("ar", { x })).x, rounded);
  }
  assert.equal(seconds(1125), "1.12 s");
});

test("percentages are rounded down, and tiny ones are not zero", () => {
  assert.deepEqual([0, 1e-9, 0.00009, 0.0001, 0.94996, 1].map(percent), [
    "0.00%",
    "<0.01%",
    "<0.01%",
    "0.01%",
    "94.99%",
    "100.00%",
  ]);
});
