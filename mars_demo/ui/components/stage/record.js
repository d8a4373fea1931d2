// The record on the stage: the runs that its lines tell of. No drawing here.

import { constants } from "../component.js";
import { modes } from "./modes.js";

/** One run: its settings, its passes and, per pass, when it ended on the run's own clock. */
export class Run {
  constructor(settings) {
    this.settings = { criterion: "probability", ...settings, messages: settings.messages ?? [] };
    this.mode = modes.get(settings.mode);
    this.passes = [];
    this.ends = []; // ms
    this.totals = []; // tokens accepted so far
    this.filled = []; // which slots have their token after each pass, where gaps may come before them
    this.accepted = []; // slots
    this.ids = []; // of them
    this.slots = this.most = settings.window; // the most slots and accepted tokens of a pass, for scales,
    this.rows = settings.window; // and the most that it verifies and adds
    this.done = null;
  }

  add(pass) {
    const accepted = pass.slots.slice(0, pass.accepted);
    if (this.mode.beyond === "filled") this.filled.push(filledAfter(pass, this.passes.at(-1), this.filled.at(-1)));
    this.passes.push(pass);
    this.ends.push(this.ms + pass.ms);
    this.accepted.push(...accepted);
    this.ids.push(...accepted.map((slot) => slot.id));
    this.totals.push(this.ids.length);
    this.slots = Math.max(this.slots, pass.slots.length);
    this.most = Math.max(this.most, pass.accepted);
    this.rows = Math.max(this.rows, (pass.drafts ?? 0) + 1);
  }

  get ms() {
    return this.ends.at(-1) ?? 0;
  }

  get text() {
    return this.passes.map(({ slots, accepted }) => slots.slice(0, accepted).map(({ text }) => text).join("")).join("");
  }

  get perForward() {
    return this.ids.length / this.passes.length;
  }

  get speed() {
    return this.ids.length / this.ms;
  }

  get stopped() {
    return this.done?.stop === "stopped";
  }

  /** How many passes had ended at a time of the clock; all of them at no particular time. */
  passesAt(time) {
    if (time === null) return this.passes.length;
    const later = this.ends.findIndex((end) => end > time + 1e-6);
    return later < 0 ? this.passes.length : later;
  }

  /** The forward and the slot of the answer's `index`-th token; null behind its end. */
  placeOf(index) {
    const pass = this.totals.findIndex((total) => total > index);
    return pass < 0 ? null : { pass, slot: index - (this.totals[pass - 1] ?? 0) };
  }

  startOf(index) {
    return index ? this.ends[index - 1] : 0;
  }
}

/** A forward on a block fills its slots that reach τ, and always the surest of those still empty; the next one
 * lists the block from the first slot that was not accepted. */
function filledAfter(pass, before, filledBefore) {
  const filled = before ? filledBefore.slice(before.accepted) : [];
  const empty = pass.slots.flatMap(({ score }, index) => (filled[index] ? [] : { score, index }));
  const surest = empty.reduce((best, slot) => (slot.score > best.score ? slot : best), empty[0]);
  const reaches = ({ score }) => score >= pass.tau && pass.tau < 1;
  for (const slot of empty) filled[slot.index] = slot === surest || reaches(slot);
  return filled;
}

/** Schema 1 had one criterion, the probability, and called the score `confidence`. */
const ofSchema1 = (slots) => slots.map(({ confidence, ...slot }) => ({ ...slot, score: confidence }));

/**
 * Reads JSON lines as they come. `lane` on a line says whose it is; without one it belongs to the run
 * that began last. Throws a sentence if a line is no record.
 */
export class Reader {
  constructor() {
    this.runs = {};
    this.current = null;
    this.recording = null; // title and note, if this was recorded
    this.texts = {}; // the lines of each run as they came, without lanes
    this.advice = undefined; // the nearest example of a prompt outside what the model knows, once asked for
  }

  take(line) {
    const { lane, ...record } = JSON.parse(line);
    if (record.recording) {
      this.recording = record;
      return;
    }
    if (record.run) this.begin(record);
    const mode = lane ?? this.current;
    const run = this.runs[mode];
    if (!run) throw new Error("it does not begin with a run's settings");
    if (record.done) run.done = record;
    else if (record.pass) run.add(checked(record, run.settings.schema));
    else if (!record.run) throw new Error("a line is neither settings, forward nor end");
    this.texts[mode] += `${JSON.stringify(record)}\n`;
  }

  begin(settings) {
    const { schema, mode } = settings;
    const messages = settings.messages ?? [];
    if (!constants.schemas.includes(schema))
      throw new Error(`its schema is ${schema}, this page reads schema ${constants.schemas.join(" and ")}`);
    if (!modes.has(mode)) throw new Error(`its mode ${mode} is unknown here`);
    const isMessage = (one) => ["system", "user", "assistant"].includes(one?.role) && typeof one.content === "string";
    if (!Array.isArray(messages) || !messages.every(isMessage)) throw new Error("its messages are no conversation");
    this.current = mode;
    this.runs[mode] = new Run(settings);
    this.texts[mode] = "";
  }

  /** The record as a file: one run after the other. */
  get file() {
    return Object.values(this.texts).join("");
  }

  get over() {
    const runs = Object.values(this.runs);
    return runs.length > 0 && runs.every((run) => run.done);
  }
}

/** A forward in the form of today's schema. */
function checked(pass, schema) {
  if (!Array.isArray(pass.slots) || !(pass.ms >= 0) || !(pass.accepted >= 0)) throw new Error("a forward lacks its slots");
  const slots = schema === 1 ? ofSchema1(pass.slots) : pass.slots;
  if (!slots.every((slot) => slot.score >= 0)) throw new Error("a slot lacks its score");
  return { ...pass, slots };
}
