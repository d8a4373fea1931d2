// The record on the stage: what each lane's run did, and what can be read from that. No drawing here.

const MODES = { ar: "One token per forward", mars: "MARS", lossless: "MARS, lossless", jacobi: "Jacobi", "block-diffusion": "Block diffusion" };
const HUES = 6; // as many as stage.css has

/** One run: its settings, its passes and, per pass, when it ended on the run's own clock. */
class Run {
  constructor(settings) {
    this.settings = settings;
    this.passes = [];
    this.ends = []; // ms
    this.totals = []; // tokens accepted so far
    this.ids = [];
    this.done = null;
  }

  add(pass) {
    const accepted = pass.slots.slice(0, pass.accepted);
    this.passes.push(pass);
    this.ends.push(this.ms + pass.ms);
    this.ids.push(...accepted.map((slot) => slot.id));
    this.totals.push(this.ids.length);
  }

  get ms() {
    return this.ends.at(-1) ?? 0;
  }

  /** How many passes had ended at a time of the clock; all of them at no particular time. */
  passesAt(time) {
    if (time === null) return this.passes.length;
    const later = this.ends.findIndex((end) => end > time + 1e-6);
    return later < 0 ? this.passes.length : later;
  }

  startOf(index) {
    return index ? this.ends[index - 1] : 0;
  }
}

const isEnd = (pass, index) => pass.stop === "eos" && index === pass.accepted - 1;
const candidate = (pass, index) => (isEnd(pass, index) ? "end" : visible(pass.slots[index].text) || "…");

/** What a slot became: accepted, the first below τ, behind that, or a draft for the next pass. In block
 * diffusion a slot may be filled before those on its left. */
function stateOf(mode, pass, index) {
  if (index < pass.accepted) return "accepted";
  if (mode === "block-diffusion") return pass.slots[index].confidence >= pass.tau && !pass.stop ? "filled" : "unread";
  if (pass.tau === null) return pass.stop ? "unread" : "draft";
  return index === pass.accepted && !pass.stop ? "rejected" : "unread";
}

/** What a pass would have accepted at another τ; an end token it did not reach is unknown to the record. */
function acceptedAt(pass, tau) {
  if (tau >= 1) return 1;
  const refused = pass.slots.findIndex((slot, index) => index > 0 && slot.confidence < tau);
  const accepted = refused < 0 ? pass.slots.length : refused;
  return pass.stop === "eos" ? Math.min(accepted, pass.accepted) : accepted;
}

/** The group of masks that a lossless pass kept: its number, or null if none saw exactly what was accepted. */
function keptGroup(pass) {
  if (pass.groups === 1 && pass.drafts > 0) return pass.verified === pass.drafts ? 0 : null;
  return pass.verified;
}

function firstDifference(a, b) {
  const length = Math.max(a.length, b.length);
  for (let index = 0; index < length; index++) if (a[index] !== b[index]) return index;
  return null;
}

function describe({ mode, window }, tau) {
  if (mode === "lossless" || mode === "jacobi") return `up to ${plural(window - 1, "draft")}`;
  return (mode === "ar" ? "" : `τ ${tau.toFixed(2)}, `) + plural(window, "slot");
}

const OUTLIER = 5; // times the median forward of its run
const MATTERS = 0.2; // of the run's time: what an outlier must exceed the median by to be worth a sentence

/** What one forward that took far too long did to a run's speed; the prefill, another kind of forward, aside. */
function hiccup(run) {
  const times = run.passes.slice(1).map((pass) => pass.ms);
  const longest = Math.max(...times);
  const median = times.toSorted((a, b) => a - b)[times.length >> 1];
  if (!(longest > OUTLIER * median) || longest - median <= MATTERS * run.ms) return [];
  return [
    `${MODES[run.settings.mode]}: one forward took ${longest.toFixed(0)} ms, ${(longest / median).toFixed(0)} times the median. ` +
      "Something else used the processor, so the speed of this side is understated.",
  ];
}

/** The result of a race in words, a sentence per side. `runs` has a run per mode; `nearest` is the nearest
 * example of a prompt outside what the model was trained on. */
function verdict(runs, nearest = null) {
  const all = Object.values(runs);
  if (!all.length) return [];
  if (!all.every((run) => run.done)) return ["Racing, each side on its own clock."];
  if (!all.every((run) => run.passes.length)) return ["Stopped before every side had begun."];
  const { ar, ...others } = runs;
  const stopped = all.some((run) => run.done.stop === "stopped");
  const summary = (run) =>
    `${MODES[run.settings.mode]}: ${plural(run.ids.length, "token")} in ` +
    `${plural(run.passes.length, "forward")}, ${(run.ids.length / run.passes.length).toFixed(1)} per forward`;
  const parts = Object.values(others).map((run) => {
    if (!ar || stopped) return `${summary(run)}.`;
    const factor = run.ids.length / run.ms / (ar.ids.length / ar.ms);
    const difference = firstDifference(ar.ids, run.ids);
    const cut = run.done.stop === "length" ? `, cut at ${plural(run.ids.length, "token")}` : "";
    const agreement = difference === null ? `same answer${cut}` : `differs from token ${difference + 1} on`;
    return `${summary(run)}, ${factor.toFixed(1)}× as fast as one token at a time; ${agreement}.`;
  });
  if (ar && (stopped || !parts.length)) parts.push(`${summary(ar)}.`);
  const { model } = all[0].settings;
  const warning = `This prompt seems to be outside what ${model} was trained on: the answer is likely nonsense.`;
  return [...(nearest ? [warning] : []), ...(stopped ? ["Stopped."] : []), ...parts, ...all.flatMap(hiccup)];
}

/**
 * Reads JSON lines as they come. `lane` on a line says whose it is; without one it belongs to the run
 * that began last. Throws a sentence if a line is no record.
 */
class Reader {
  constructor() {
    this.runs = {};
    this.current = null;
    this.recording = null; // title and note, if this was recorded
    this.texts = {}; // the lines of each run, without lanes
  }

  /** Returns the mode whose run gained something. */
  take(line) {
    const { lane, ...record } = JSON.parse(line);
    if (record.recording) {
      this.recording = record;
      return null;
    }
    if (record.run) {
      if (record.schema !== 1) throw new Error(`its schema is ${record.schema}, this page reads schema 1`);
      if (!(record.mode in MODES)) throw new Error(`its mode ${record.mode} is unknown here`);
      this.current = record.mode;
      this.runs[record.mode] = new Run(record);
      this.texts[record.mode] = "";
    }
    const mode = lane ?? this.current;
    const run = this.runs[mode];
    if (!run) throw new Error("it does not begin with a run's settings");
    if (record.done) run.done = record;
    else if (record.pass) {
      if (!Array.isArray(record.slots) || !(record.ms >= 0) || !(record.accepted >= 0)) throw new Error("a forward lacks its slots");
      run.add(record);
    } else if (!record.run) throw new Error("a line is neither settings, forward nor end");
    this.texts[mode] += `${JSON.stringify(record)}\n`;
    return mode;
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
