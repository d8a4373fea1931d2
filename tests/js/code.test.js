import assert from "node:assert/strict";
import { test } from "node:test";
import { codeIn } from "../../mars_demo/show/components/code.js";
import { recordedRuns } from "./records.js";

/** Return the kind and the text of each code, without and with its marks. */
const codes = (text) =>
  codeIn(text).map(({ kind, start, end, from, to }) => [
    kind,
    text.slice(from, to),
    text.slice(start, end),
  ]);

test("inline code has as many backticks on both sides", () => {
  assert.deepEqual(codes("Use `a` and ``b ` c``."), [
    ["inline", "a", "`a`"],
    ["inline", "b ` c", "``b ` c``"],
  ]);
  for (const text of ["no code", "one ` mark", "``a`", "a `b\nc` d"])
    assert.deepEqual(codes(text), [], text);
});

test("a block is fenced by backticks or tildes", () => {
  assert.deepEqual(codes("See:\n```python\nx = 1\ny = 2\n```\nDone."), [
    ["block", "x = 1\ny = 2", "```python\nx = 1\ny = 2\n```"],
  ]);
  assert.deepEqual(codes("~~~\nx\n~~~~"), [["block", "x", "~~~\nx\n~~~~"]]);
  assert.deepEqual(codes("  ```\nx\n  ```"), [["block", "x", "  ```\nx\n  ```"]]);
});

test("only a fence of the same kind and at least the same length closes a block", () => {
  assert.deepEqual(codes("````\n```\n~~~~\n`a`\n````"), [
    ["block", "```\n~~~~\n`a`", "````\n```\n~~~~\n`a`\n````"],
  ]);
  assert.deepEqual(codes("```\nx\n``` y\n```"), [["block", "x\n``` y", "```\nx\n``` y\n```"]]);
});

test("an unclosed block ends with the text", () => {
  assert.deepEqual(codes("```js\nlet x"), [["block", "let x", "```js\nlet x"]]);
  assert.deepEqual(codes("```"), [["block", "", "```"]]);
});

test("an empty block is empty", () => {
  assert.deepEqual(codes("```\n```"), [["block", "", "```\n```"]]);
});

test("a line of inline code is not a fence", () => {
  assert.deepEqual(codes("```a``` b"), [["inline", "a", "```a```"]]);
});

test("code follows code, in order and without overlaps", () => {
  const texts = recordedRuns().map(({ run }) => run.text);
  for (const text of [...texts, "`a`\n```\n`b`\n```\n`c` `d`\n~~~\ne"]) {
    let last = 0;
    for (const { start, from, to, end } of codeIn(text)) {
      assert.ok(last <= start && start < from && from <= to && to <= end && end <= text.length, text);
      last = end;
    }
  }
});
