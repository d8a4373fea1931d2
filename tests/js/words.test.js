// Numbers in words.

import assert from "node:assert/strict";
import { test } from "node:test";
import { percent } from "../../mars_demo/show/components/words.js";

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
