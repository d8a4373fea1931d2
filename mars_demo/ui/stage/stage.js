// The stage: holds the record, the playhead and the selection, and draws when one of them changes.
//
// `props.value` is JSON lines, each tagged with its lane, and only grows during a race; a new first line
// is a new record. Only lines not read yet are read, so being told twice changes nothing.

const MAX_FILE = 64 * 2 ** 20;
const KEPT_RUNS = 8;

const view = {
  lanes: {}, // by mode
  focus: null, // the lane whose forwards are shown below and stepped through
  time: null, // of the replay's clock, ms; null follows the record
  playing: null, // when the last frame of the replay was drawn
  hover: null, // {mode, pass, slot}
  pinned: null, // the same; slot is null where a whole pass was chosen
  ghost: null, // the τ of "what if"
  told: false, // the record's end has been noticed
  intro: false, // the replay began by itself
};
let reader = new Reader();
let source = { live: false, first: null, offset: 0, recording: null };
let wanted = props.shelf ? { mode: address.get("lane"), pass: Number(address.get("pass")) || null } : {};
const kept = []; // races of this visit, newest first
const SETTINGS = ["prompt", "model", "mode", "tau"]; // of a race, in the address

// ------------------------------------------------------------------------------------ the record

function begin(live, first) {
  reader = new Reader();
  source = { live, first, offset: 0, recording: null };
  Object.assign(view, { lanes: {}, time: null, playing: null, hover: null, pinned: null, ghost: null, told: false, intro: false });
  find(".lanes").replaceChildren();
  heat.grow(null);
  hideCard();
  complain("");
}

const onPhone = () => matchMedia("(max-width: 640px)").matches;

/** The server's value has grown, or is another one. */
function follow() {
  const value = props.value || "";
  const first = value.slice(0, value.indexOf("\n") + 1);
  if (!first) return;
  if (first !== source.first) {
    begin(true, first);
    if (props.shelf && !wanted.pass) address.set({ run: null, lane: null, pass: null });
    if (onPhone()) find(".stage").scrollIntoView();
  }
  for (let end; (end = value.indexOf("\n", source.offset)) >= 0; source.offset = end + 1)
    reader.take(value.slice(source.offset, end));
  consult();
  changed();
}

/** A whole record from elsewhere. Throws a sentence if it is none, and then leaves the stage as it is. */
function open(text) {
  const whole = new Reader();
  text.split("\n").forEach((line, number) => {
    if (!line.trim()) return;
    try {
      whole.take(line);
    } catch (error) {
      throw new Error(`This is not the record of a run: line ${number + 1} cannot be read (${error.message}).`);
    }
  });
  if (!Object.values(whole.runs).some((run) => run.passes.length))
    throw new Error("This is not the record of a run: it has no forward.");
  for (const run of Object.values(whole.runs)) run.done ||= { done: true, stop: "stopped" };
  begin(false, null);
  reader = whole;
  consult();
  changed();
}

/** Ask once per record whether its prompt is outside what its model was trained on. */
async function consult() {
  const [run] = Object.values(reader.runs);
  if (!props.shelf || !run || reader.advice !== undefined) return;
  const asking = reader;
  asking.advice = null;
  asking.advice = await server.advice(run.settings).catch(() => null);
  if (asking === reader) show();
}

/** New passes came: grow the lanes, then show. */
function changed() {
  const runs = Object.values(reader.runs);
  for (const mode of Object.keys(MODES)) {
    if (!reader.runs[mode]) continue;
    if (!view.lanes[mode]) {
      view.lanes[mode] = new Lane(mode);
      find(".lanes").append(...Object.keys(MODES).flatMap((m) => view.lanes[m]?.root ?? []));
    }
    view.lanes[mode].grow(reader.runs[mode]);
  }
  if (!reader.runs[view.focus] || (view.focus === "ar" && !view.pinned))
    view.focus = ["mars", "lossless", "block-diffusion", "ar"].find((mode) => reader.runs[mode]) ?? null;
  const rescale = (largest) => (reader.over ? largest : scaleFor(1.05 * largest));
  const most = (measure) => Math.max(...runs.map(measure));
  const scale = {
    time: rescale(most((run) => run.ms)) || 1,
    tokens: rescale(most((run) => run.ids.length)) || 1,
    height: most((run) => run.settings.window),
  };
  for (const lane of Object.values(view.lanes)) lane.scale(scale);
  if (reader.over && !view.told) finish();
  show();
}

/** Once per record, when all its runs have ended. */
function finish() {
  view.told = true;
  const { ar, ...others } = reader.runs;
  for (const [mode, run] of Object.entries(others)) {
    const index = ar && ar.done.stop !== "stopped" && run.done.stop !== "stopped" ? firstDifference(ar.ids, run.ids) : null;
    if (index === null) continue;
    view.lanes[mode].place(index)?.classList.add("differs");
    view.lanes.ar.place(index)?.classList.add("differs");
  }
  if (source.live && props.shelf) keep();
  if (wanted.pass && (!wanted.mode || reader.runs[wanted.mode])) {
    view.focus = wanted.mode ?? view.focus;
    const run = reader.runs[view.focus];
    if (wanted.pass <= run.passes.length) goTo(run.ends[wanted.pass - 1]);
    wanted = {};
  }
}

// ------------------------------------------------------------------------------------ what is seen

const selection = () => view.hover ?? view.pinned;
/** The forward in the window: the selected one, otherwise the latest that can be seen. */
function shownPass() {
  const chosen = selection();
  const mode = chosen?.mode ?? view.focus;
  return { mode, index: chosen?.pass ?? (view.lanes[mode]?.shown ?? 0) - 1 };
}
const total = () => Math.max(0, ...Object.values(reader.runs).map((run) => run.ms));

let scheduled = false;
/** Draw before the next frame, however many things changed until then. */
function show() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    render();
  });
}

function render() {
  const { classList } = find(".stage");
  classList.toggle("over", reader.over);
  if (view.playing !== null || view.time === null) classList.toggle("replaying", view.playing !== null);
  for (const lane of Object.values(view.lanes)) {
    lane.showAt(view.time, view.playing !== null);
    lane.root.classList.toggle("focused", lane.mode === view.focus);
  }
  const chosen = selection();
  const { mode, index } = shownPass();
  const run = reader.runs[view.focus];
  drawWindow(reader.runs[mode], index, chosen?.slot ?? null);
  heat.grow(run);
  const shown = view.lanes[view.focus]?.shown ?? 0;
  heat.showUntil(shown);
  drawShares(run, shown);
  drawGhost(run, mode === view.focus ? index : shown - 1, view.ghost);
  light(mode, chosen || view.time !== null ? index : null, chosen?.slot ?? null);
  announce(Object.keys(reader.runs).length ? verdict(reader.runs, reader.advice) : [props.empty]);
  offerNearest(reader.over && reader.advice);
  const asked = Object.values(reader.runs)[0]?.settings.prompt ?? "";
  say(find(".prompt"), asked);
  find(".asked").hidden = !asked;
  const { title, note } = reader.recording ?? {};
  say(find(".note"), title ? `Recorded: ${title}. ${note}` : "");
  find(".hint").hidden = !props.shelf || !title;
  drawReplay();
  if (props.shelf && find(".recordings").value !== (source.recording ?? "")) find(".recordings").value = source.recording ?? "";
  rememberSoon();
}

let lit = [];
function light(mode, index, slot) {
  for (const node of lit) {
    node.classList.remove("lit", "chosen");
    if (node.matches(".token")) node.removeAttribute("aria-selected");
  }
  lit = [];
  const lane = view.lanes[mode];
  if (!lane || index === null || index < 0) return;
  lit = [lane.groups[index], lane.bars[index]];
  if (mode === view.focus) lit.push(heat.columns[index]);
  for (const node of lit) node?.classList.add("lit");
  const token = slot === null ? null : lane.token(index, slot);
  token?.classList.add("chosen");
  token?.setAttribute("aria-selected", true);
  lit = [...lit, token].filter(Boolean);
}

function drawReplay() {
  const end = total();
  say(find(".clock"), end ? `${seconds(view.time ?? end)} of ${seconds(end)}` : "");
  say(find(".play"), view.playing === null ? "▶ Play" : "⏸ Pause");
  for (const button of findAll(".replay button")) button.disabled = !end;
}

/** A line per sentence, spoken once. */
function announce(sentences) {
  const line = find(".verdict");
  if (line.textContent === sentences.map((sentence) => `${sentence} `).join("")) return;
  line.replaceChildren(...sentences.map((sentence) => make("span", "", `${sentence} `)));
}

/** The nearest example of a prompt that the model was not trained for. The result is no triumph then. */
function offerNearest(example) {
  find(".verdict").classList.toggle("outside", Boolean(example));
  find(".nearest").hidden = !example;
  if (example) say(find('[data-do="nearest"]'), `Run the nearest example: ${example.title}`);
}

function complain(sentence) {
  say(find(".trouble"), sentence);
  find(".trouble").hidden = !sentence;
}

let remembering;
/** The selected pass goes into the address, but not at every frame of a replay. */
function rememberSoon() {
  clearTimeout(remembering);
  if (!props.shelf || wanted.pass || !reader.over) return;
  remembering = setTimeout(() => {
    const run = reader.runs[view.focus];
    if (!run || view.playing !== null) return;
    const forward = view.pinned?.mode === view.focus ? view.pinned.pass + 1 : view.time === null ? 0 : view.lanes[view.focus].shown;
    if (linked()) address.set(forward ? { run: source.recording, lane: view.focus, pass: forward } : { lane: null, pass: null });
  }, 250);
}

/** The recorded run that the address opens: the one it names, or the first if it holds no settings either. */
function addressed() {
  const ids = props.recordings.map(({ id }) => id);
  const empty = SETTINGS.every((key) => address.get(key) === null);
  return ids.find((id) => id === address.get("run")) ?? (empty ? ids[0] : null);
}

/** Whether the address opens what is on the stage: its recording, or the settings of a race. */
function linked() {
  return source.recording ? addressed() === source.recording : source.live && address.get("prompt") !== null;
}

// ---------------------------------------------------------------------------------------- replay

function goTo(time) {
  view.time = time !== null && time >= total() ? null : time;
  view.pinned = null;
  hideCard();
  show();
}

function pause() {
  view.playing = null;
  view.intro = false;
}

/** Forwards of the focused lane, one at a time; the other lanes follow the clock. */
function step(by) {
  pause();
  const run = reader.runs[view.focus];
  if (!run) return;
  const at = run.passesAt(view.time) + by;
  goTo(at <= 0 ? 0 : at > run.passes.length ? null : run.ends[at - 1]);
}

function speed() {
  const chosen = find(".speed").value;
  return chosen === "auto" ? Math.min(1, total() / 6000) : Number(chosen);
}

function play() {
  if (view.playing !== null) {
    pause();
    return show();
  }
  if (!total()) return;
  if (view.time === null) view.time = 0;
  view.pinned = null;
  hideCard();
  view.playing = performance.now();
  requestAnimationFrame(frame);
}

function frame(now) {
  if (view.playing === null) return;
  view.time += Math.max(0, now - view.playing) * speed();
  view.playing = now;
  if (view.time >= total()) {
    pause();
    view.time = null;
  }
  show();
  if (view.playing !== null) requestAnimationFrame(frame);
}

/** The first recording plays once by itself as soon as it is seen; whatever a visitor does ends that. */
function introduce() {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const seen = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      seen.disconnect();
      play();
      view.intro = true;
    },
    { threshold: 0.5 },
  );
  seen.observe(find(".lane"));
  // The window hears of it after the stage, whose own controls have then done what they say.
  const end = () => {
    seen.disconnect();
    if (!view.intro) return;
    pause();
    view.time = null;
    show();
  };
  for (const kind of ["click", "input", "keydown"]) addEventListener(kind, end);
}

// ----------------------------------------------------------------------------------- the shelf

function keep() {
  kept.unshift({ file: reader.file, runs: reader.runs });
  kept.splice(KEPT_RUNS);
  const body = find(".history tbody");
  body.replaceChildren(...kept.map(historyRow));
  find(".history").hidden = false;
}

function historyRow({ file, runs }) {
  const { ar, ...others } = runs;
  const row = make("tr", "");
  const button = make("button", "past", visible(Object.values(runs)[0].settings.prompt).replaceAll("␣", " "));
  button.type = "button";
  button.addEventListener("click", () => attempt(() => open(file)));
  const list = Object.values(others);
  const each = (words) => list.map(words).join(" · ");
  const rate = (run) => run.ids.length / run.ms;
  const taus = (run) => [...new Set(run.passes.map((pass) => pass.tau))];
  const cells = [
    each((run) => {
      if (run.settings.mode === "lossless") return "lossless";
      const seen = taus(run);
      return seen.length > 2 ? `τ ${Math.min(...seen)}–${Math.max(...seen)}` : `τ ${seen.join(" → ")}`;
    }),
    each((run) => (run.ids.length / Math.max(1, run.passes.length)).toFixed(2)),
    each((run) => (ar?.ms && run.ms ? (rate(run) / rate(ar)).toFixed(2) : "–")),
    each((run) => {
      if (!ar || [ar, run].some((one) => one.done.stop === "stopped")) return "stopped";
      const index = firstDifference(ar.ids, run.ids);
      return index === null ? "same" : `differs from ${index + 1}`;
    }),
  ];
  const first = make("td", "");
  first.append(button);
  row.append(first, ...cells.map((text) => make("td", "", text)));
  return row;
}

async function showRecording(id, chosen = true) {
  if (chosen) {
    clearTimeout(window.remembering); // what the controls were before
    address.set({ run: id, ...Object.fromEntries(["lane", "pass", ...SETTINGS].map((key) => [key, null])) });
  }
  open(await server.recording(id));
  source.recording = id;
  if (chosen) trigger("recorded", { id });
}

function nextRecording() {
  const ids = props.recordings.map(({ id }) => id);
  return showRecording(ids[(ids.indexOf(reader.recording?.recording) + 1) % ids.length]);
}

function listRecordings() {
  const list = find(".recordings");
  const none = make("option", "", "choose…");
  none.value = "";
  none.disabled = true;
  list.append(
    none,
    ...props.recordings.map(({ id, title }) => {
      const option = make("option", "", title);
      option.value = id;
      return option;
    }),
  );
}

/** Do something that may fail with a sentence; the stage stays as it is then. */
async function attempt(action) {
  try {
    complain("");
    await action();
  } catch (error) {
    complain(error.message || String(error));
  }
}

const fileName = () => `mars-${Object.values(reader.runs)[0]?.settings.run ?? "stage"}`.replaceAll(/[^\w-]/g, "");

async function openFile(file) {
  if (!file) return;
  if (file.size > MAX_FILE) throw new Error("This file is larger than 64 MiB, which no record of a run is.");
  open(await file.text());
}

const actions = {
  start: () => (pause(), goTo(0)),
  back: () => step(-1),
  play() {
    if (onPhone() && view.playing === null) find(".lanes").scrollIntoView(); // all of them fit there now
    play();
  },
  step: () => step(1),
  end: () => (pause(), goTo(null)),
  next: nextRecording,
  again() {
    const prompt = reader.runs[view.focus].settings.prompt;
    trigger("again", { prompt, tau: view.ghost });
  },
  nearest: () => trigger("again", { prompt: reader.advice.prompt, tau: null }),
  mask() {
    const { mode, index } = shownPass();
    if (index < 0) throw new Error("There is no forward to show before the first one.");
    trigger("mask", { record: reader.texts[mode], number: index + 1 });
  },
  jsonl() {
    if (!reader.file) throw new Error("There is no record on the stage yet.");
    download(`${fileName()}.jsonl`, new Blob([reader.file], { type: "application/x-ndjson" }));
  },
  svg: () => download(`${fileName()}.svg`, new Blob([pictureOf(find(".stage"))], { type: "image/svg+xml" })),
  png: async () => download(`${fileName()}.png`, await rasterize(pictureOf(find(".stage")))),
  async link() {
    const button = find('[data-do="link"]');
    await navigator.clipboard.writeText(location.href);
    say(button, source.recording || address.get("prompt") !== null ? "Copied" : "Copied without the prompt");
    setTimeout(() => say(button, "Copy link"), 1500);
  },
};

// ------------------------------------------------------------------------------- hands and keys

/** The pass, and in an answer the slot, that a node stands for. */
function aim(node) {
  const mode = node.closest(".lane")?.dataset.lane ?? view.focus;
  const owner = node.closest("[data-pass]");
  if (!owner || !mode) return null;
  const slot = owner.matches(".token") ? Number(owner.dataset.slot) : null;
  return { mode, pass: Number(owner.dataset.pass), slot };
}

function hover(node) {
  view.hover = aim(node);
  if (view.hover?.slot != null) showCard(node, reader.runs[view.hover.mode], view.hover, false);
  show();
}

function leave() {
  if (!view.hover) return;
  view.hover = null;
  if (view.pinned?.slot != null) {
    const { mode, pass, slot } = view.pinned;
    showCard(view.lanes[mode].token(pass, slot), reader.runs[mode], view.pinned, true);
  } else hideCard();
  show();
}

function pin(token) {
  const target = aim(token);
  const same = view.pinned && ["mode", "pass", "slot"].every((key) => view.pinned[key] === target[key]);
  view.pinned = same ? null : target;
  view.hover = null;
  view.focus = target.mode;
  if (same) hideCard();
  else showCard(token, reader.runs[target.mode], target, true);
  show();
}

/** The forward under a place of a lane's strip; its end becomes the time. */
function scrub(lane, x) {
  const box = lane.strip.getBoundingClientRect();
  const time = (Math.min(Math.max(x - box.left, 0), box.width) / box.width) * lane.timeScale;
  pause();
  view.hover = null;
  view.focus = lane.mode;
  const index = lane.run.ends.findIndex((end) => end >= time);
  goTo(index < 0 ? Math.min(time, total()) : lane.run.ends[index]);
}

const laneOf = (node) => view.lanes[node.closest(".lane")?.dataset.lane];

element.addEventListener("pointerover", ({ target, buttons }) => {
  if (!buttons && target.matches(".token, .strip rect, .heat rect")) hover(target);
  else if (view.hover && !target.closest(".answer, .strip, .heat")) leave();
});
element.addEventListener("pointerleave", leave);
element.addEventListener("focusin", ({ target }) => target.matches(".token") && hover(target));
element.addEventListener("focusout", ({ target }) => target.matches(".token") && leave());

element.addEventListener("pointerdown", (event) => {
  const strip = event.target.closest(".strip");
  if (!strip || event.button) return;
  strip.setPointerCapture(event.pointerId);
  scrub(laneOf(strip), event.clientX);
});
element.addEventListener("pointermove", (event) => {
  const strip = event.target.closest?.(".strip");
  if (strip?.hasPointerCapture(event.pointerId)) scrub(laneOf(strip), event.clientX);
});

element.addEventListener("click", ({ target }) => {
  const action = target.closest("[data-do]")?.dataset.do;
  if (action) attempt(actions[action]);
  else if (target.matches(".token")) pin(target);
  else if (target.matches(".name")) {
    view.focus = laneOf(target).mode;
    view.ghost = null;
    ghosts();
    show();
  } else if (target.closest(".heat [data-pass]")) {
    pause();
    goTo(reader.runs[view.focus].ends[aim(target).pass]);
  }
});

function ghosts() {
  for (const lane of Object.values(view.lanes)) lane.ghost(lane.mode === view.focus ? view.ghost : null);
  heat.ghost(view.ghost);
}

find(".ghost-range").addEventListener("input", ({ target }) => {
  view.ghost = Number(target.value);
  ghosts();
  show();
});
find(".recordings").addEventListener("change", ({ target }) => target.value && attempt(() => showRecording(target.value)));
find(".file").addEventListener("change", async ({ target }) => {
  await attempt(() => openFile(target.files[0]));
  target.value = "";
});

element.addEventListener("dragover", (event) => {
  event.preventDefault();
  find(".stage").classList.add("dropping");
});
element.addEventListener("dragleave", () => find(".stage").classList.remove("dropping"));
element.addEventListener("drop", (event) => {
  event.preventDefault();
  find(".stage").classList.remove("dropping");
  attempt(() => openFile(event.dataTransfer.files[0]));
});

const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "step", Home: "start", End: "end" };

document.addEventListener("keydown", (event) => {
  if (!element.isConnected || !element.offsetParent || event.ctrlKey || event.metaKey || event.altKey) return;
  const { target, key } = event;
  if (!props.shelf && !element.contains(target)) return; // a stage that is a part of something
  if (key === "Escape") {
    if (view.pinned || view.hover) event.preventDefault(); // once more leaves the talk view
    view.pinned = view.hover = null;
    hideCard();
    return show();
  }
  if (target.matches(".token") && key !== "Home" && key !== "End") return walk(event);
  const typing = target.matches("input, textarea, select, [contenteditable], [role=tab], [role=listbox], [role=option]:not(.token)");
  if (typing || (key === " " && target.matches("button")) || !(key in KEYS)) return;
  event.preventDefault();
  actions[KEYS[key]]();
});

/** Arrows on a token go from token to token, Enter and Space pin it. */
function walk(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by) {
    const tokens = findAll(".token", event.target.closest(".answer"));
    tokens[tokens.indexOf(event.target) + by]?.focus();
  } else if (event.key === "Enter" || event.key === " ") pin(event.target);
  else return;
  event.preventDefault();
}

// ----------------------------------------------------------------------------------------- start

heat.legend();
find(".stage").classList.toggle("bare", !props.shelf);
if (props.shelf) {
  listRecordings();
  const id = addressed();
  const started = wanted.pass ? () => {} : introduce;
  if (id && !props.value) attempt(() => showRecording(id, false)).then(started);
}
// A record that another component of the page has.
find(".stage").addEventListener("record", ({ detail }) => attempt(() => open(detail)));
watch("value", follow);
follow();
render();
