import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { Tokenizer } from "@huggingface/tokenizers";
import { Answer } from "../../mars_demo/static/live/worker/answer.js";
import { Tokens } from "../../mars_demo/static/live/worker/tokens.js";

const folder = new URL("../../assets/mars-tiny/", import.meta.url);
const [content, config] = ["tokenizer.json", "tokenizer_config.json"].map((name) =>
  JSON.parse(readFileSync(new URL(name, folder), "utf-8")),
);
const special = content.added_tokens.map((token) => token.content);
const [END, USER] = ["<|end|>", "<|user|>"].map((name) => special.indexOf(name));
const description = { before: "<|user|>", after: "<|end|><|assistant|>", raw: false, special };
const tokens = new Tokens(Tokenizer, content, config, description);
const BETWEEN = new Tokens(Tokenizer, content, config, { ...description, before: "", after: "" });
const HARD = "Cañón 東京 👩‍👩‍👧 e\u0301 🇩🇪 naïve — “x” \u0085\ufeff end";

/** Return the texts of the accepted slots when an answer accepts ids, `step` at a time. */
function textsOf(ids, step, limit = ids.length) {
  const answer = new Answer(tokens, new Set([END]), limit);
  const texts = [];
  for (let start = 0; start < ids.length && !answer.stop; start += step) {
    const readings = ids
      .slice(start, start + step)
      .map((token) => ({ token, score: 1, candidates: [], probabilities: [], source: "model" }));
    const { slots, accepted } = answer.step(readings, readings.length, { positions: 1 });
    texts.push(...slots.slice(0, accepted).map(({ text }) => text));
  }
  return { texts, answer };
}

test("the texts of an answer's slots are the answer, also across the bytes of a character", () => {
  const ids = BETWEEN.encodePrompt(HARD.repeat(4));
  for (const step of [1, 2, 5, 9, 1000]) {
    const { texts, answer } = textsOf(ids, step);
    assert.equal(texts.join(""), HARD.repeat(4));
    assert.ok(texts.includes("")); // part of a character
    assert.ok(!texts.some((text) => text.includes("\ufffd")));
    assert.equal(answer.stop, "length");
  }
});

test("an accepted end token ends the answer and has no text", () => {
  const ids = [...BETWEEN.encodePrompt("Yes."), END, ...BETWEEN.encodePrompt("No.")];
  const { texts, answer } = textsOf(ids, 50);
  assert.equal(texts.join(""), "Yes.");
  assert.equal(texts.at(-1), "");
  assert.equal(answer.stop, "eos");
  assert.equal(answer.ids.at(-1), END);
});

test("an answer that ends within a character shows what it has of it", () => {
  const ids = BETWEEN.encodePrompt("東");
  assert.ok(ids.length > 1);
  const { texts, answer } = textsOf(ids, 1, ids.length - 1);
  assert.equal(texts.join(""), tokens.decode(ids.slice(0, -1)));
  assert.equal(answer.stop, "length");
});

test("slots after the accepted ones have the names of their tokens", () => {
  const answer = new Answer(tokens, new Set([END]), 9);
  const reading = (token) => ({
    token,
    score: 0.5,
    candidates: [token],
    probabilities: [0.5],
    source: "mask",
  });
  const [word] = BETWEEN.encodePrompt("The");
  const { slots, accepted, pass } = answer.step([word, END, USER].map(reading), 1, { positions: 3 });
  assert.deepEqual(
    slots.map(({ text }) => text),
    ["The", "<|end|>", "<|user|>"],
  );
  assert.deepEqual(
    slots.map(({ top }) => top[0][0]),
    ["The", "<|end|>", "<|user|>"],
  );
  assert.deepEqual([accepted, pass, answer.room], [1, 1, 8]);
});

test("the marks of a template's slots are removed from a prompt", () => {
  assert.deepEqual(tokens.encodePrompt("a\ue000b\ue0010"), tokens.encodePrompt("ab0"));
  assert.deepEqual(tokens.encodePrompt("<|e\ue000nd|>"), tokens.encodePrompt("<|end|>"));
  assert.ok(!tokens.encodePrompt("<|e\ue000nd|>").slice(1, -2).includes(END));
});

test("without a template a prompt is raw text, after the tokens that the tokenizer adds", () => {
  const single = [{ SpecialToken: { id: "<|user|>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }];
  const ids = { id: "<|user|>", ids: [USER], tokens: ["<|user|>"] };
  const post_processor = { ...content.post_processor, single, special_tokens: { "<|user|>": ids } };
  const raw = { ...description, before: "", after: "", raw: true };
  const untemplated = new Tokens(Tokenizer, { ...content, post_processor }, config, raw);
  assert.deepEqual(untemplated.encodePrompt("a <|end|>"), [USER, ...BETWEEN.encodePrompt("a <|end|>")]);
});
