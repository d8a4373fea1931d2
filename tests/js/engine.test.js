import assert from "node:assert/strict";
import { test } from "node:test";
import * as ort from "onnxruntime-web";
import { Answer } from "../../mars_demo/static/live/worker/answer.js";
import { drive, lossless, windowStrategy } from "../../mars_demo/static/live/worker/decoding.js";
import { Engine } from "../../mars_demo/static/live/worker/engine.js";
import { Pace } from "../../mars_demo/static/live/worker/pace.js";
import { END, letters, logitsOf, MASK, predicted, TinyEngine } from "./model.js";

const [HEADS, WIDTH] = [2, 3];

/**
 * The model of model.js with the inputs and outputs of an exported model: it keeps token ids as keys and
 * positions as values.
 */
class TinySession {
  most = 0; // positions of a forward

  async run({ ids, positions, bias, rest, rows, ...cached }) {
    const n = ids.dims[1];
    const past = cached["key.0"].dims[2];
    const total = Math.ceil((past + n) / 16) * 16;
    assert.deepEqual(bias.dims, [n, total]);
    assert.deepEqual(rest.dims, [1, HEADS, total - past - n, WIDTH]);
    this.most = Math.max(this.most, n);
    const added = [ids, positions].map(({ data }) => [...data].map(Number));
    const [keys, places] = added.map((numbers, kind) => {
      const { dims, data } = cached[kind ? "value.0" : "key.0"];
      assert.deepEqual(dims, [1, HEADS, past, WIDTH]);
      const ofLastHead = data.slice((HEADS - 1) * past * WIDTH);
      return [...Array.from({ length: past }, (_, column) => ofLastHead[column * WIDTH]), ...numbers];
    });
    const logits = Array.from(rows.data, (row) => {
      const isSeen = (_, column) => bias.data[Number(row) * total + column] === 0;
      const seen = places.filter(isSeen);
      assert.deepEqual(seen, [...seen.keys()]);
      return [...logitsOf(predicted(keys.filter(isSeen)))];
    });
    const tensor = (data, dims) => new ort.Tensor("float32", Float32Array.from(data), dims);
    const computed = added.map((numbers) =>
      Array(HEADS)
        .fill(numbers.flatMap((number) => Array(WIDTH).fill(number)))
        .flat(),
    );
    return {
      logits: tensor(logits.flat(), [logits.length, logits[0].length]),
      computed: tensor(computed.flat(), [2, HEADS, n, WIDTH]),
    };
  }
}

/** Return the passes of a strategy on an engine, without times. */
async function passesOf(strategy, engine, prompt, limit) {
  const answer = new Answer(letters, new Set([END]), limit);
  const request = { pace: new Pace("mars", 9, null), tau: () => 0.6, maskId: MASK };
  const passes = [];
  for await (const { ms, model_ms, read_ms, ...pass } of drive(engine, strategy(answer, prompt, request))) {
    assert.ok(ms >= model_ms + read_ms);
    passes.push(pass);
  }
  return passes;
}

for (const [length, context] of [
  [1, 64],
  [5, 64],
  [260, 2000],
  [509, 2000],
  [505, 512],
  [504, 512],
])
  test(`${length} tokens in a context of ${context}: the passes of an engine without a cache`, async () => {
    const prompt = Array.from({ length }, (_, index) => 3 + ((index * index) % 17));
    const limit = Math.min(40, context - length);
    for (const strategy of [windowStrategy, lossless]) {
      const session = new TinySession();
      const engine = new Engine(ort, session, { layers: 1, heads: HEADS, width: WIDTH });
      const uncached = new TinyEngine();
      const expected = await passesOf(strategy, uncached, prompt, limit);
      assert.deepEqual(await passesOf(strategy, engine, prompt, limit), expected);
      assert.ok(session.most <= 256 + 10);
      assert.equal(engine.length, uncached.ids.length);
    }
  });
