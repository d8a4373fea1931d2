import assert from "node:assert/strict";
import { test } from "node:test";
import * as ort from "onnxruntime-web";
import { Answer } from "../../mars_demo/ui/live/worker/answer.js";
import { drive, lossless, windowStrategy } from "../../mars_demo/ui/live/worker/decoding.js";
import { Engine } from "../../mars_demo/ui/live/worker/engine.js";
import { END, letters, logitsOf, MASK, predicted, TinyEngine } from "./model.js";

const [HEADS, WIDTH] = [2, 3];

/**
 * The model of model.js with the inputs and outputs of an exported model: it keeps token ids as keys and
 * positions as values.
 */
class TinySession {
  rooms = new Set();
  most = 0; // positions of a forward
  longest = 0; // text with the positions of a forward

  async run({ ids, positions, last, count, bias, rows, ...stores }) {
    const [n, total] = [ids.dims[1], count.data[0]];
    assert.equal(n % 2, 0);
    assert.equal(last.data[0], total - 1);
    assert.deepEqual(bias.dims, [1, 1, n, total]);
    const [, , room] = stores["key.0"].dims;
    assert.ok(total <= room);
    this.rooms.add(room);
    this.most = Math.max(this.most, n);
    this.longest = Math.max(this.longest, total);
    const [keys, values] = [ids, positions].map(({ data }, kind) => {
      const store = stores[kind ? "value.0" : "key.0"].data.slice();
      for (let head = 0; head < HEADS; head++)
        for (let i = 0; i < n; i++) store.fill(Number(data[i]), ...cell(head, total - n + i, room));
      return store;
    });
    const logits = Array.from(rows.data, (row) => {
      const seen = Array.from({ length: total }, (_, column) => column).filter(
        (column) => bias.data[Number(row) * total + column] === 0,
      );
      const [context, places] = [keys, values].map((store) =>
        seen.map((column) => store[cell(1, column, room)[0]]),
      );
      assert.deepEqual(places, seen);
      return [...logitsOf(predicted(context))];
    });
    const tensor = (data, dims) => new ort.Tensor("float32", Float32Array.from(data), dims);
    return {
      logits: tensor(logits.flat(), [logits.length, logits[0].length]),
      "key.0.out": tensor(keys, [1, HEADS, room, WIDTH]),
      "value.0.out": tensor(values, [1, HEADS, room, WIDTH]),
    };
  }
}

/** Return the begin and the end of a position's numbers in a store. */
const cell = (head, column, room) => [0, 1].map((more) => (head * room + column + more) * WIDTH);

/** Return the passes of a strategy on an engine, without times. */
async function passesOf(strategy, engine, prompt, limit) {
  const answer = new Answer(letters, new Set([END]), limit);
  const request = { window: 9, tau: () => 0.6, maskId: MASK };
  const passes = [];
  for await (const { ms, model_ms, read_ms, ...pass } of drive(
    engine,
    strategy(answer, prompt, request),
    "entropy",
  )) {
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
      const engine = new Engine(ort, session, { layers: 1, heads: HEADS, width: WIDTH, context });
      const uncached = new TinyEngine();
      const expected = await passesOf(strategy, uncached, prompt, limit);
      assert.deepEqual(await passesOf(strategy, engine, prompt, limit), expected);
      assert.ok(Math.max(...session.rooms) <= Math.max(context, session.longest));
      assert.ok(session.rooms.size <= 3);
      assert.ok(session.most <= 256 + 10);
      assert.equal(engine.length, uncached.ids.length);
    }
  });
