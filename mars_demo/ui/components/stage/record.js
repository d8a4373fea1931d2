// The record on the stage: the runs that its lines tell of. No drawing here.

import { constants } from "../component.js";
import { freeLane, modes } from "./modes.js";

/** One run: its settings, its passes and, per pass, when it ended on the run's own clock. */
export class Run {
  constructor(settings, lane, race) {
    this.lane = lane;
    this.race = race; // {number, letter, recording}: those that began together
    this.branch = settings.branch ?? null; // where it leaves another run
    this.given = this.branch?.given ?? []; // [id, text] of the tokens that its answer begins with
    this.settings = { criterion: "probability", ...settings, messages: settings.messages ?? [] };
    this.mode = modes.get(settings.mode);
    this.passes = [];
    this.ends = []; // ms
    this.totals = []; // tokens accepted so far
    this.filled = []; // which slots have their token after each pass, where gaps may come before them
    this.accepted = []; // slots
    this.ids = []; // of them; no forward has accepted what was given
    this.slots = this.most = settings.window; // the most slots and accepted tokens of a pass, for scales,
    this.rows = settings.window; // and the most that it verifies and adds
    this.done = null;
  }

  /** A forward in the form of today's schema; no τ is one that accepts a token per forward. */
  add({ slots, tau, ...rest }) {
    const pass = { ...rest, tau: this.mode.uses_tau ? (tau ?? 1) : tau, slots: slots.map(scored) };
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

  /** What it is called on the stage. */
  get title() {
    const from = this.branch ? `, from token ${this.branch.at + 1}` : "";
    return `${this.mode.title}${from}${this.race.letter ? ` (${this.race.letter})` : ""}`;
  }

  /** Of the whole answer. */
  get answerIds() {
    return [...this.given.map(([id]) => id), ...this.ids];
  }

  get texts() {
    return [...this.given.map(([, text]) => text), ...this.accepted.map(({ text }) => text)];
  }

  get text() {
    return this.texts.join("");
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

  /** The index in the answer of what a forward accepted in a slot. */
  indexOf(pass, slot) {
    return this.given.length + (this.totals[pass - 1] ?? 0) + slot;
  }

  /** The forward and the slot of the answer's `index`-th token; null after its end, and where it was given. */
  placeOf(index) {
    index -= this.given.length;
    if (index < 0) return null;
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
const scored = ({ confidence, ...slot }) => (confidence === undefined ? slot : { ...slot, score: confidence });

/**
 * Reads JSON lines as they come. `lane` on a line says whose it is; without one it belongs to the run
 * that began last. Throws a sentence if there are too many runs.
 */
export class Reader {
  constructor() {
    this.runs = Object.create(null); // by lane; an address or a record may ask for any name
    this.current = null; // the lane of the run that began last
    this.races = []; // of runs that began together, each with the title and note of a recorded one
    this.texts = {}; // the lines of each run as they came, without lanes
  }

  take(line) {
    const { lane, ...record } = JSON.parse(line);
    if ("recording" in record) return this.beginRace(record);
    if ("run" in record) this.begin(record, lane);
    const name = lane ?? this.current;
    if (record.done) this.runs[name].done = record;
    else if (record.pass) this.runs[name].add(record);
    this.texts[name] += `${JSON.stringify(record)}\n`;
  }

  /** Runs that come now are of another race. */
  beginRace(recording = null) {
    const last = this.races.at(-1);
    const isEmpty = last && !Object.values(this.runs).some(({ race }) => race === last);
    if (isEmpty) return void (last.recording = recording ?? last.recording);
    this.races.push({ number: this.races.length, letter: "", recording });
    if (this.races.length > 1) this.races.forEach((race, index) => (race.letter = String.fromCharCode(65 + index)));
  }

  begin(settings, lane) {
    const race = this.races.at(-1);
    const others = Object.values(this.runs).filter((run) => run.race === race);
    const again = !lane && !settings.branch && others.some((run) => !run.branch && run.settings.mode === settings.mode);
    if (!race || again) this.beginRace();
    this.current = lane ?? freeLane(settings.mode, this.runs);
    if (!(this.current in this.runs) && Object.keys(this.runs).length === constants.lanes) throw new Error(`The stage has room for ${constants.lanes} runs.`);
    this.runs[this.current] = new Run(settings, this.current, this.races.at(-1));
    this.texts[this.current] = "";
  }

  /** One race's record, with the title and note of a recorded one. */
  textOf(race) {
    const lanes = Object.entries(this.runs).filter(([, run]) => run.race === race);
    const header = race.recording ? [`${JSON.stringify(race.recording)}\n`] : [];
    return [...header, ...lanes.map(([lane]) => this.texts[lane])].join("");
  }

  /** Of the recorded run that this is, if it is one alone. */
  get recording() {
    return this.races.length === 1 ? this.races[0].recording : null;
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
