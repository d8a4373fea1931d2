// The runs on the stage, read from the JSON lines of their records. No drawing here.

import { isForced } from "../acceptance.js";
import { constants } from "../component.js";
import { freeLane, modes } from "./modes.js";

/**
 * @typedef {import("../record.js").Pass} Pass
 * @typedef {import("../record.js").Slot} Slot
 * @typedef {import("../record.js").Settings} Settings
 * @typedef {import("../record.js").Recording} Recording
 */

/**
 * The runs that began together. `letter` is empty unless the stage has several races; `recording` is the
 * heading of a recorded run.
 * @typedef {{ number: number, letter: string, recording: Recording | null }} Race
 */

/** One run: its settings, its passes and their end times on the run's own clock. */
export class Run {
  /**
   * @param {Settings} settings
   * @param {string} lane
   * @param {Race} race
   */
  constructor(settings, lane, race) {
    const { messages = [] } = settings;
    this.lane = lane;
    this.race = race;
    this.settings = { ...settings, criterion: settings.criterion ?? "probability", messages };
    // The server has validated it.
    this.mode = /** @type {Mode} */ (modes.get(settings.mode));
    /** @type {Pass[]} */
    this.passes = [];
    /** @type {number[]} */
    this.ends = []; // ms, the end of each pass
    /** @type {number[]} */
    this.totals = []; // the tokens accepted up to the end of each pass
    /** @type {boolean[][]} */
    this.filled = []; // whether each slot is filled after each pass, in modes that fill slots after a gap
    /** @type {Slot[]} */
    this.accepted = []; // the accepted slots of all passes
    /** @type {number[]} */
    this.ids = []; // their ids
    // The largest numbers of a pass, for scales: slots, accepted tokens, and drafts + 1.
    this.slots = this.most = this.rows = settings.window;
    /** @type {import("../record.js").Done | null} */
    this.done = null;
  }

  /**
   * Add a forward. Without a threshold a mode with τ counts as τ = 1, which accepts one token per forward.
   */
  add(/** @type {Pass} */ { tau, ...rest }) {
    const pass = { ...rest, tau: this.mode.uses_tau ? (tau ?? 1) : tau };
    const accepted = pass.slots.slice(0, pass.accepted);
    if (this.mode.beyond === "filled")
      this.filled.push(filledAfter(pass, this.passes.at(-1), this.filled.at(-1)));
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

  /** The run's name on the stage. */
  get title() {
    return `${this.mode.title}${this.race.letter ? ` (${this.race.letter})` : ""}`;
  }

  /** The text of the answer. */
  get text() {
    return this.accepted.map(({ text }) => text).join("");
  }

  /** The number of forwards, including those that only put a block into the block-level cache. */
  get forwards() {
    return this.passes.length + (this.done?.commits ?? 0);
  }

  /** Tokens per forward. */
  get perForward() {
    return this.ids.length / this.forwards;
  }

  /** Tokens per millisecond. */
  get speed() {
    return this.ids.length / this.ms;
  }

  /** The number of tokens that the grammar forced. */
  get forced() {
    return this.accepted.filter(isForced).length;
  }

  /** Whether the answer was truncated before its grammar allowed an end. */
  get isUnfinished() {
    return Boolean(this.settings.grammar) && this.done?.stop === "length";
  }

  get stopped() {
    return this.done?.stop === "stopped";
  }

  /**
   * Return the number of passes that had ended at `time` on the run's clock; all of them for null.
   * @param {number | null} time ms
   */
  passesAt(time) {
    if (time === null) return this.passes.length;
    const later = this.ends.findIndex((end) => end > time + 1e-6);
    return later < 0 ? this.passes.length : later;
  }

  /** Return the index in the answer of an accepted slot. */
  indexOf(/** @type {number} */ pass, /** @type {number} */ slot) {
    return (this.totals[pass - 1] ?? 0) + slot;
  }

  /** Return the pass and the slot of the answer's `index`-th token; null after the end. */
  placeOf(/** @type {number} */ index) {
    const pass = this.totals.findIndex((total) => total > index);
    return pass < 0 ? null : { pass, slot: index - (this.totals[pass - 1] ?? 0) };
  }

  /** Return the start of a pass, in ms. */
  startOf(/** @type {number} */ index) {
    return index ? this.ends[index - 1] : 0;
  }
}

/**
 * Return whether each slot of a block is filled after `pass`. A forward fills the slots that reach τ and
 * always the most confident empty slot; the next forward lists the block from the first slot that was not
 * accepted.
 * @param {Pass} pass
 * @param {Pass | undefined} before
 * @param {boolean[] | undefined} filledBefore
 */
function filledAfter(pass, before, filledBefore) {
  const filled = before && filledBefore ? filledBefore.slice(before.accepted) : [];
  const tau = pass.tau ?? 1;
  const empty = pass.slots.flatMap(({ score }, index) => (filled[index] ? [] : { score, index }));
  const best = empty.reduce((most, slot) => (slot.score > most.score ? slot : most), empty[0]);
  for (const slot of empty) filled[slot.index] = slot === best || (slot.score >= tau && tau < 1);
  return filled;
}

/**
 * A reader of JSON lines as they come. Lines without a `lane` belong to the run that began last. It throws
 * a sentence if there are too many runs.
 */
export class Reader {
  constructor() {
    /** @type {Record<string, Run>} */
    this.runs = Object.create(null); // by lane; the lanes of a record may have any name
    this.current = ""; // the lane of the run that began last
    /** @type {Race[]} */
    this.races = [];
    /** @type {Record<string, string>} */
    this.texts = Object.create(null); // the lines of each run, without lanes
  }

  /** @param {string} line */
  take(line) {
    const { lane, ...record } = JSON.parse(line);
    if ("recording" in record) return this.beginRace(record);
    if ("run" in record) this.begin(record, lane);
    const name = lane ?? this.current;
    if (record.done) this.runs[name].done = record;
    else if (record.pass) this.runs[name].add(record);
    this.texts[name] += `${JSON.stringify(record)}\n`;
  }

  /**
   * Begin a race, which later runs belong to; a race without runs is reused.
   * @param {Recording | null} recording
   */
  beginRace(recording = null) {
    const last = this.races.at(-1);
    if (last && !Object.values(this.runs).some(({ race }) => race === last)) {
      last.recording = recording ?? last.recording;
      return;
    }
    this.races.push({ number: this.races.length, letter: "", recording });
    if (this.races.length < 2) return;
    for (const race of this.races) race.letter = String.fromCharCode(65 + race.number);
  }

  /** Begin a run. Without a lane, a second run of a mode begins another race. */
  begin(/** @type {Settings} */ settings, /** @type {string | undefined} */ lane) {
    const last = this.races.at(-1);
    const others = Object.values(this.runs).filter((run) => run.race === last);
    const isRepeated = !lane && others.some((run) => run.settings.mode === settings.mode);
    if (!last || isRepeated) this.beginRace();
    this.current = lane ?? freeLane(settings.mode, this.runs);
    if (!(this.current in this.runs) && Object.keys(this.runs).length === constants.lanes)
      throw new Error(`The stage has room for ${constants.lanes} runs.`);
    this.runs[this.current] = new Run(settings, this.current, this.races[this.races.length - 1]);
    this.texts[this.current] = "";
  }

  /** Return the record of one race, with its heading if it was recorded. */
  textOf(/** @type {Race} */ race) {
    const lanes = Object.entries(this.runs).filter(([, run]) => run.race === race);
    const header = race.recording ? [`${JSON.stringify(race.recording)}\n`] : [];
    return [...header, ...lanes.map(([lane]) => this.texts[lane])].join("");
  }

  /** The heading of the recorded race, if there is only one race. */
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
