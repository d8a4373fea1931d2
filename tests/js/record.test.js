import assert from "node:assert/strict";
import { test } from "node:test";
import {
  closing,
  forwards,
  heading,
  linesOf,
  readerOf,
  recordedRuns,
  recordings,
  runOf,
  split,
} from "./records.js";

const { constants } = globalThis.given;

test("a recorded run has the tokens, forwards and time of its closing line", () => {
  for (const { name, run, raw } of recordedRuns()) {
    assert.equal(run.ids.length, raw.end.tokens, name);
    assert.equal(run.forwards, raw.end.forwards, name);
    assert.ok(Math.abs(run.ms / 1000 - raw.end.seconds) < 1e-3, name);
  }
});

test("an answer joins the accepted slots", () => {
  for (const { run, raw } of recordedRuns()) {
    let [text, ids] = ["", []];
    for (const { slots, accepted } of raw.passes)
      for (let slot = 0; slot < accepted; slot++) {
        text += slots[slot].text;
        ids = [...ids, slots[slot].id];
      }
    assert.equal(run.text, text);
    assert.deepEqual(run.ids, ids);
  }
});

test("the clock of a run adds up its forwards", () => {
  for (const { run, raw } of recordedRuns()) {
    let clock = 0;
    for (const [index, { ms }] of raw.passes.entries()) {
      assert.ok(Math.abs(run.startOf(index) - clock) < 1e-6);
      assert.equal(run.passesAt(clock + ms / 2), index);
      clock += ms;
      assert.equal(run.passesAt(run.ends[index]), index + 1);
    }
    assert.equal(run.passesAt(null), raw.passes.length);
  }
});

test("places and indices of tokens are inverse", () => {
  for (const { run } of recordedRuns()) {
    for (const [index, id] of run.ids.entries()) {
      const { pass, slot } = run.placeOf(index);
      assert.equal(run.passes[pass].slots[slot].id, id);
      assert.equal(run.indexOf(pass, slot), index);
    }
    assert.equal(run.placeOf(run.ids.length), null);
  }
});

test("a record that was read is written as it was", () => {
  for (const [name, lines] of recordings) {
    const reader = readerOf(lines);
    assert.deepEqual(linesOf(reader.file), lines, name);
    assert.equal(reader.races.map((race) => reader.textOf(race)).join(""), reader.file, name);
    assert.ok(reader.over, name);
  }
});

test("interleaved lanes give the same runs as whole ones", () => {
  for (const [name, lines] of recordings) {
    const lanes = split(lines).map(({ settings, passes, end }) =>
      [settings, ...passes, end].map((line) => ({ ...line, lane: settings.mode })),
    );
    const mixed = [];
    for (let row = 0; lanes.some((lane) => row < lane.length); row++)
      for (const lane of lanes) if (row < lane.length) mixed.push(lane[row]);
    const [whole, growing] = [readerOf(lines), readerOf(mixed)].map(({ runs }) => Object.values(runs));
    assert.deepEqual(
      growing.map(({ ids, ends }) => ({ ids, ends })),
      whole.map(({ ids, ends }) => ({ ids, ends })),
      name,
    );
  }
});

test("a second run of a mode begins another race", () => {
  const race = [heading("ar"), closing(), heading("mars"), closing()];
  const reader = readerOf([...race, ...race]);
  assert.deepEqual(Object.keys(reader.runs), ["ar", "mars", "ar~2", "mars~2"]);
  assert.deepEqual(
    Object.values(reader.runs).map(({ title }) => title),
    ["One token per forward (A)", "MARS (A)", "One token per forward (B)", "MARS (B)"],
  );
});

test("a heading names the recording of the next runs", () => {
  const recording = { recording: "bus", title: "Bus", note: "A note." };
  const reader = readerOf([recording, heading("ar"), closing()]);
  assert.deepEqual(reader.recording, recording);
  assert.deepEqual(linesOf(reader.textOf(reader.races[0]))[0], recording);
});

test("too many runs throw a sentence", () => {
  const lanes = Array.from({ length: constants.lanes + 1 }, (_, lane) =>
    heading("mars", { lane: `${lane}` }),
  );
  assert.throws(() => readerOf(lanes), /room for 6 runs/);
});

test("a record is over when each of its runs has ended", () => {
  assert.ok(!readerOf([]).over);
  assert.ok(!readerOf([heading("ar"), closing(), heading("mars")]).over);
  assert.ok(readerOf([heading("ar"), closing(), heading("mars"), closing("stopped")]).over);
});

test("a forward on a block fills the slots that reach τ, or the most confident one", () => {
  const passes = forwards([
    [0, [0.3, 0.5, 0.95, 0.2], { tau: 0.9 }], // slot 3 reaches τ, after a gap
    [1, [0.92, 0.5, 0.1, 0.91], { tau: 0.9 }], // slots 1 and 4 reach it; slot 3 was filled before
    [3, [0.4, 0.95, 0.3], { tau: 0.9 }], // slot 2 of the block, now the first one, is the only empty slot
  ]);
  assert.deepEqual(runOf(heading("block-diffusion"), passes).filled, [
    [false, false, true, false],
    [true, false, true, true],
    [true, true, true],
  ]);
});

test("the scales of a run are its largest numbers", () => {
  for (const { run, raw } of recordedRuns()) {
    const most = (measure) => Math.max(raw.settings.window, ...raw.passes.map(measure));
    assert.equal(
      run.slots,
      most(({ slots }) => slots.length),
    );
    assert.equal(
      run.most,
      most(({ accepted }) => accepted),
    );
    assert.equal(
      run.rows,
      most(({ drafts }) => (drafts ?? 0) + 1),
    );
  }
});
