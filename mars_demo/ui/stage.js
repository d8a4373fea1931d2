// Draws the record of a race. Runs once per page, with Gradio's `element`, `props` and `watch`.
//
// `props.value` is JSON lines, each tagged with its lane, and only grows during a race; a new first line
// is a new race. Only lines not drawn yet are read, so drawing twice changes nothing. Text from people or
// models goes through `textContent` alone.

const HUES = 6; // as many as stage.css has
const NAMES = { ar: "One token per forward", mars: "MARS" };
const STATES = {
  accepted: ["✓", "accepted"],
  rejected: ["✗", "first below τ"],
  unread: ["○", "not read"],
  draft: ["◇", "draft, the next forward checks it"],
};

const find = (selector, root = element) => root.querySelector(selector);
const make = (tag, className, text = "") => {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
};
const percent = (p) => `${(Math.floor(p * 1e4) / 100).toFixed(2)}%`; // never up: 94.996% is not yet 95%
const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
const isEnd = (pass, index) => pass.stop === "eos" && index === pass.accepted - 1;
const shown = (pass, index) => (isEnd(pass, index) ? "end" : visible(pass.slots[index].text) || "…");

// ---------------------------------------------------------------------------------------- lanes

const lanes = {};
for (const name of Object.keys(NAMES)) {
  const root = find(".lane-template").content.cloneNode(true).firstElementChild;
  root.dataset.lane = name;
  root.setAttribute("aria-label", NAMES[name]);
  find(".answer", root).setAttribute("aria-label", `Answer, ${NAMES[name]}`);
  find(".name", root).textContent = NAMES[name];
  find(".lanes").append(root);
  lanes[name] = { name, root };
  clear(lanes[name]);
}

function clear(lane) {
  Object.assign(lane, { settings: null, passes: [], ids: [], ms: 0, done: null, inspected: null });
  find(".answer", lane.root).replaceChildren();
  find(".slots", lane.root).replaceChildren();
  for (const selector of [".setting", ".caption", ".legend"]) find(selector, lane.root).textContent = "";
}

function take({ lane: name, ...record }) {
  const lane = lanes[name];
  if (record.run) lane.settings = record;
  else if (record.done) lane.done = record;
  else addPass(lane, record);
}

function addPass(lane, pass) {
  lane.passes.push(pass);
  lane.ms += pass.ms;
  const group = make("span", "pass");
  group.dataset.hue = pass.pass % HUES;
  pass.slots.slice(0, pass.accepted).forEach((slot, index) => {
    lane.ids.push(slot.id);
    const token = make("span", "token", slot.text);
    token.dataset.pass = lane.passes.length - 1;
    token.dataset.slot = index;
    token.tabIndex = lane.ids.length === 1 ? 0 : -1; // one tab stop per answer, arrows move inside
    token.classList.toggle("end", isEnd(pass, index));
    token.classList.toggle("newline", slot.text.includes("\n"));
    group.append(token);
  });
  find(".answer", lane.root).append(group);
}

// ------------------------------------------------------------------------------ numbers and window

function count(lane) {
  const forwards = lane.passes.length;
  const tokens = lane.ids.length;
  const known = {
    tokens,
    forwards,
    perForward: (tokens / forwards).toFixed(2),
    perSecond: Math.round(tokens / (lane.ms / 1000)),
  };
  for (const cell of lane.root.querySelectorAll("[data-count]"))
    cell.textContent = forwards ? known[cell.dataset.count] : "–";
}

function describe({ mode, window }, tau) {
  if (mode === "lossless") return `lossless, up to ${plural(window - 1, "draft")}`;
  return (mode === "mars" ? `τ ${tau.toFixed(2)}, ` : "") + plural(window, "slot");
}

function stateOf(pass, index) {
  if (index < pass.accepted) return "accepted";
  if (pass.tau === null) return pass.stop ? "unread" : "draft";
  return index === pass.accepted && !pass.stop ? "rejected" : "unread";
}

/** The window of one pass: the inspected one, otherwise the latest. */
function drawWindow(lane) {
  const pass = lane.inspected?.pass ?? lane.passes.at(-1);
  if (!pass) return;
  const list = find(".slots", lane.root);
  while (list.children.length < pass.slots.length) list.append(emptySlot());
  list.style.setProperty("--window", lane.settings.window);
  list.dataset.mode = lane.settings.mode;
  const states = pass.slots.map((_, index) => stateOf(pass, index));
  [...list.children].forEach((row, index) => {
    row.hidden = index >= pass.slots.length;
    if (row.hidden) return;
    const slot = pass.slots[index];
    const state = states[index];
    row.dataset.state = state;
    row.classList.toggle("inspected", lane.inspected?.slot === index);
    find(".mark", row).textContent = STATES[state][0];
    find(".mark", row).title = STATES[state][1];
    find(".candidate", row).textContent = shown(pass, index);
    find(".confidence", row).textContent = percent(slot.confidence);
    find(".bar i", row).style.width = `${100 * slot.confidence}%`;
  });
  list.dataset.hue = pass.pass % HUES;
  list.classList.toggle("threshold", pass.tau !== null && pass.slots.length > 1);
  if (pass.tau !== null) list.style.setProperty("--tau", pass.tau);
  find(".caption", lane.root).textContent =
    `Forward ${pass.pass}: ` +
    (pass.drafts === undefined
      ? `${pass.accepted} of ${plural(pass.slots.length, "slot")} accepted`
      : `${pass.verified} of ${plural(pass.drafts, "draft")} held, ${pass.accepted} accepted`) +
    (pass.tau === null ? "" : `, τ ${pass.tau.toFixed(2)}`);
  const legend = [...new Set(states)].map((state) => STATES[state].join(" "));
  if (pass.tau !== null && pass.slots.length > 1) legend.push("slot 1 is always accepted");
  find(".legend", lane.root).textContent = legend.join("   ");
}

function emptySlot() {
  const row = make("li", "slot");
  const bar = make("span", "bar");
  bar.append(make("i", ""));
  row.append(make("span", "mark"), make("span", "candidate"), bar, make("span", "confidence"));
  return row;
}

// ------------------------------------------------------------------------------------- the verdict

function firstDifference(a, b) {
  const length = Math.max(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return i + 1;
  return null;
}

function summary(lane, name) {
  const tokens = lane.ids.length;
  const forwards = lane.passes.length;
  const rate = (tokens / forwards).toFixed(1);
  return `${name}: ${plural(tokens, "token")} in ${plural(forwards, "forward")}, ${rate} per forward`;
}

function verdict() {
  const { ar, mars } = lanes;
  if (!ar.settings) return "Press Run: the same model answers twice, one token at a time and with MARS.";
  if (!ar.done || !mars.done) return "Racing, each side on its own clock.";
  const name = mars.settings.mode === "lossless" ? "MARS, lossless" : "MARS";
  if (!ar.passes.length || !mars.passes.length) return "Stopped before both sides had begun.";
  if (ar.done.stop === "stopped" || mars.done.stop === "stopped")
    return `Stopped. ${summary(mars, name)}; ${summary(ar, "one token at a time")}.`;
  const factor = mars.ids.length / mars.ms / (ar.ids.length / ar.ms);
  const difference = firstDifference(ar.ids, mars.ids);
  const cut = mars.done.stop === "length" ? `, cut at ${plural(mars.ids.length, "token")}` : "";
  const agreement = difference ? `differs from token ${difference} on` : `same answer${cut}`;
  return `${summary(mars, name)}, ${factor.toFixed(1)}× as fast as one token at a time; ${agreement}.`;
}

// ----------------------------------------------------------------------------------------- drawing

let race = null;
let offset = 0;

function draw() {
  const value = props.value || "";
  const first = value.slice(0, value.indexOf("\n") + 1);
  if (first !== race) {
    Object.values(lanes).forEach(clear);
    hideCard();
    race = first;
    offset = 0;
    if (first && matchMedia("(max-width: 640px)").matches) find(".stage").scrollIntoView();
  }
  const answers = Object.values(lanes).map(({ root }) => find(".answer", root));
  const following = answers.map((box) => box.scrollHeight - box.scrollTop - box.clientHeight < 40);
  for (let end; (end = value.indexOf("\n", offset)) >= 0; offset = end + 1)
    take(JSON.parse(value.slice(offset, end)));
  answers.forEach((box, i) => following[i] && (box.scrollTop = box.scrollHeight));
  for (const lane of Object.values(lanes)) {
    count(lane);
    drawWindow(lane);
    lane.root.classList.toggle("running", Boolean(lane.settings) && !lane.done);
    if (lane.settings) {
      const tau = lane.passes.at(-1)?.tau ?? lane.settings.tau;
      find(".setting", lane.root).textContent = describe(lane.settings, tau);
    }
  }
  const sentence = verdict();
  const line = find(".verdict");
  if (line.textContent !== sentence) line.textContent = sentence; // a live region: say it once
}

// -------------------------------------------------------------------- a token's card, by hover or focus

function inspect(token) {
  const lane = lanes[token.closest(".lane").dataset.lane];
  const pass = lane.passes[token.dataset.pass];
  const slot = Number(token.dataset.slot);
  lane.inspected = { pass, slot };
  find(".where").textContent =
    `Forward ${pass.pass}, slot ${slot + 1}: “${shown(pass, slot)}” at ${percent(pass.slots[slot].confidence)}`;
  find(".alternatives").replaceChildren(
    ...pass.slots[slot].top.map(([text, probability]) => {
      const row = make("li", "");
      const bar = make("span", "bar");
      bar.append(make("i", ""));
      bar.firstChild.style.width = `${100 * probability}%`;
      row.append(make("span", "candidate", visible(text) || "…"), bar, make("span", "", percent(probability)));
      return row;
    }),
  );
  token.setAttribute("aria-describedby", "stage-card");
  placeCard(token);
  drawWindow(lane);
}

function placeCard(token) {
  const card = find(".card");
  card.hidden = false;
  const stage = find(".stage").getBoundingClientRect();
  const box = token.getBoundingClientRect();
  const left = Math.min(box.left - stage.left, stage.width - card.offsetWidth);
  const above = box.top - card.offsetHeight - 8;
  const top = above > 0 ? above : box.bottom + 8;
  card.style.left = `${Math.max(0, left)}px`;
  card.style.top = `${top - stage.top}px`;
}

function hideCard() {
  find(".card").hidden = true;
  for (const lane of Object.values(lanes)) {
    if (lane.inspected) {
      lane.inspected = null;
      drawWindow(lane);
    }
  }
}

function moveFocus(event) {
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (event.key === "Escape") return hideCard();
  if (!(event.key in steps) || !event.target.matches(".token")) return;
  const tokens = [...event.currentTarget.querySelectorAll(".token")];
  tokens[tokens.indexOf(event.target) + steps[event.key]]?.focus();
  event.preventDefault();
}

for (const { root } of Object.values(lanes)) {
  const answer = find(".answer", root);
  for (const kind of ["pointerover", "focusin"])
    answer.addEventListener(kind, ({ target }) => target.matches(".token") && inspect(target));
  for (const kind of ["pointerleave", "focusout"]) answer.addEventListener(kind, hideCard);
  answer.addEventListener("keydown", moveFocus);
}

watch("value", draw);
draw();
