import assert from "node:assert/strict";
import { test } from "node:test";
import { Knobs } from "../../mars_demo/static/live/worker/knobs.js";
import { race } from "../../mars_demo/static/live/worker/race.js";
import { sentenceOf } from "../../mars_demo/static/live/worker/refusal.js";
import { description, letters, TinyEngine } from "./model.js";

const ALL = ["ar", "mars", "lossless"];

/** Return a model, and the engines that it will have made. */
function modelOf(fields = {}, makeEngine = () => new TinyEngine()) {
  const engines = [];
  const newEngine = () => {
    engines.push(makeEngine());
    return engines.at(-1);
  };
  return { model: { description: { ...description, ...fields }, tokens: letters, newEngine }, engines };
}

const requestOf = (fields = {}) => ({ prompt: "abcabcabc", modes: ALL, maxNewTokens: 40, ...fields });

/** Return the parsed lines of a race; `act(line, knobs)` is called after each. */
async function raced(model, fields = {}, act = () => {}, knobs = new Knobs(0.7)) {
  const lines = [];
  for await (const line of race(model, requestOf(fields), knobs)) {
    assert.ok(line.endsWith("\n"));
    lines.push(JSON.parse(line));
    act(lines.at(-1), knobs);
  }
  return lines;
}

const byLane = (lines) => ALL.map((lane) => lines.filter((line) => line.lane === lane));

test("a race gives the lines of whole runs", async () => {
  const { model, engines } = modelOf();
  const lines = await raced(model);
  assert.deepEqual(
    lines.slice(0, 3).map(({ mode }) => mode),
    ALL,
  );
  for (const [settings, ...passes] of byLane(lines)) {
    const end = passes.pop();
    assert.match(settings.run, /^[0-9a-f]{8}$/);
    assert.deepEqual(
      passes.map(({ pass }) => pass),
      [...passes.keys()].map((index) => index + 1),
    );
    assert.equal(
      end.tokens,
      passes.reduce((sum, { accepted }) => sum + accepted, 0),
    );
    assert.equal(end.forwards, passes.length);
    assert.ok(Math.abs(end.seconds * 1000 - passes.reduce((sum, { ms }) => sum + ms, 0)) < 0.06);
    assert.deepEqual([end.stop, end.done], [passes.at(-1).stop, true]);
    assert.ok(passes.slice(0, -1).every(({ stop }) => stop === null));
  }
  assert.equal(engines.length, 3);
});

test("windows are fixed, or adapt to the costs of the model's forwards", async () => {
  const costs = [
    [1, 1],
    [3, 21],
    [5, 41],
  ]; // masks never pay
  const masks = async (adaptive) => {
    const model = { ...modelOf({ end_ids: [] }).model, costs };
    return byLane(await raced(model, { adaptive })).map((lines) => {
      const slots = lines.slice(1, -1).map(({ slots }) => slots.filter(({ source }) => source === "mask"));
      return Math.max(...slots.map(({ length }) => length));
    });
  };
  assert.deepEqual(await masks(true), [0, 0, 0]);
  assert.deepEqual(await masks(false), [0, 4, 8]); // verified ones, and those to verify
});

test("the run whose clock is behind takes the next forward", async () => {
  const lines = await raced(modelOf().model);
  const clocks = Object.fromEntries(ALL.map((lane) => [lane, 0]));
  for (const { lane, pass, ms, done } of lines.slice(3)) {
    if (pass) {
      assert.ok(
        Object.values(clocks).every((clock) => clocks[lane] <= clock + 0.05),
        "it was ahead",
      );
      clocks[lane] += ms;
    }
    if (done) delete clocks[lane];
  }
});

test("τ acts at the next forward, in modes with τ alone", async () => {
  const setTau = (line, knobs) => {
    if (line.lane === "mars" && line.pass) knobs.tau = line.pass % 2 ? 1 : 0;
  };
  const [ar, mars, verified] = byLane(await raced(modelOf({ end_ids: [] }).model, {}, setTau));
  assert.equal(mars[0].tau, 0.7);
  const passes = mars.slice(2, -1); // those after the first one
  assert.ok(passes.length > 4);
  for (const { pass, tau, slots } of passes) {
    assert.equal(tau, pass % 2 ? 0 : 1);
    assert.equal(slots.length === 1, tau === 1 || pass === passes.at(-1).pass);
  }
  for (const { tau } of [...ar, ...verified].filter(({ done }) => !done)) assert.equal(tau, null);
});

test("a message stops a race between two forwards", async () => {
  const { port1, port2 } = new MessageChannel();
  const knobs = new Knobs(0.7);
  port2.onmessage = () => {
    knobs.stop();
  };
  const { model } = modelOf();
  const lines = await raced(model, {}, ({ pass }) => pass && port1.postMessage("stop"), knobs);
  port1.close();
  assert.ok(lines.length < 3 + 4 + 3, `${lines.length} lines`);
  assert.deepEqual(
    lines.slice(-3).map(({ lane, stop }) => [lane, stop]),
    ALL.map((lane) => [lane, "stopped"]),
  );
});

test("a watched race waits after each forward, until its period ends, it stops, or nobody watches", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const end = () => t.mock.timers.tick(125);
  for (const resume of [end, (knobs) => knobs.stop(), (knobs) => knobs.watch(false)]) {
    const knobs = new Knobs(0.7, true);
    const lines = race(modelOf().model, requestOf(), knobs);
    for (let read = 0; read < ALL.length + 1; read++) await lines.next();
    let waits = true;
    const next = lines.next().finally(() => {
      waits = false;
    });
    for (let task = 0; task < 100; task++) await new Promise((done) => setImmediate(done));
    assert.ok(waits);
    resume(knobs);
    assert.ok(!(await next).done);
    await lines.return();
  }
});

test("forwards are warmed after a pause only, also after one that the visitor ends", async (t) => {
  t.mock.method(globalThis, "setTimeout", (resume) => resume());
  let clock = 0;
  const clocked = t.mock.method(performance, "now");
  for (const [ms, watched, isPaused] of [
    [0, true, true],
    [200, true, false], // longer than the period
    [0, false, false],
  ]) {
    clocked.mock.mockImplementation(() => (clock += ms));
    const { model, engines } = modelOf();
    const lines = await raced(model, {}, () => {}, new Knobs(0.7, watched));
    const passes = lines.filter(({ pass }) => pass).length;
    assert.deepEqual(
      engines.slice(ALL.length).map(({ forwards }) => forwards),
      isPaused ? [2 * passes] : [],
    );
  }
  clocked.mock.mockImplementation(() => clock);
  const [{ model, engines }, knobs] = [modelOf(), new Knobs(0.7, true)];
  t.mock.method(globalThis, "setTimeout", () => setImmediate(() => knobs.watch(false)));
  await raced(model, { modes: ["ar"] }, () => {}, knobs);
  assert.deepEqual(
    engines.slice(1).map(({ forwards }) => forwards),
    [2],
  );
});

test("an error comes after the last lines of all runs", async () => {
  const makeEngine = () => {
    const engine = new TinyEngine();
    const forward = engine.forward.bind(engine);
    engine.forward = (...layout) => {
      if (engine.ids.length > 12) throw new RangeError("Array buffer allocation failed");
      return forward(...layout);
    };
    return engine;
  };
  const lines = [];
  const whole = raced(modelOf({ end_ids: [] }, makeEngine).model, {}, (line) => lines.push(line));
  await assert.rejects(whole, (error) => /not enough memory/.test(sentenceOf(error)));
  assert.deepEqual(
    lines
      .filter(({ done }) => done)
      .map(({ lane, stop }) => [lane, stop])
      .toSorted(),
    [
      ["ar", "stopped"],
      ["lossless", "stopped"],
      ["mars", "stopped"],
    ],
  );
});

test("a prompt that cannot be answered throws a sentence", async () => {
  const cases = [
    [" \n\t", "The prompt is empty; write something for the model to answer."],
    ["a".repeat(200), "The prompt has 200 tokens; letters can read at most 199."],
    ["half \ud83d", "The prompt contains half of a character (a lone surrogate)."],
  ];
  for (const [prompt, sentence] of cases)
    await assert.rejects(raced(modelOf().model, { prompt }), (error) => sentenceOf(error) === sentence);
});

test("an answer ends where the context ends", async () => {
  const [ar] = byLane(await raced(modelOf({ context: 20, end_ids: [] }).model));
  assert.equal(ar.at(-1).tokens, 20 - "abcabcabc".length);
  assert.equal(ar.at(-1).stop, "length");
  assert.equal(ar[0].max_new_tokens, 40);
});
