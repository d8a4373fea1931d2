// The input of the stage: buttons, tokens, strips and keys.

import { constants, element, trigger } from "../component.js";
import { find, findAll } from "../dom.js";
import { hideCard, showCard } from "./card.js";
import { askPrediction } from "./inspector.js";
import { putExample } from "./offers.js";
import { inView, onPhone } from "./records.js";
import { goTo, pause, play, step } from "./replay.js";
import {
  copyLink,
  nextRecording,
  openFiles,
  savePage,
  saveRecord,
  showBeside,
  showRecording,
} from "./tools.js";
import { focused, redraw, shownPass, stage, total, view } from "./state.js";
import { attempt } from "./errors.js";
import { TAU_STEP } from "../words.js";

const actions = {
  start: () => stopAt(0),
  back: () => step(-1),
  play() {
    if (onPhone() && view.playing === null) find(".lanes").scrollIntoView(); // all of them fit there
    play();
  },
  step: () => step(1),
  end: () => stopAt(null),
  next: nextRecording,
  again() {
    const { prompt } = focused().settings;
    const record = stage.reader.texts[view.focus];
    trigger("again", { prompt, record, tau: view.whatIf });
  },
  mask() {
    const { lane, number } = shownPass();
    if (number < 0) throw new Error("Select a forward first: the replay is before the first one.");
    trigger("mask", { record: stage.reader.texts[lane], number: number + 1 });
  },
  prediction: askPrediction,
  example: putExample,
  jsonl: saveRecord,
  html: savePage,
  link: copyLink,
};

function stopAt(time) {
  pause();
  goTo(time);
}

const KEYS = { " ": "play", ArrowLeft: "back", ArrowRight: "step", Home: "start", End: "end" };

// ----------------------------------------------------------------------------------- the selection

/**
 * Return the pass, and in an answer the slot, that a node draws.
 * @returns {import("./state.js").Selection | null}
 */
function targetOf(node) {
  const lane = node.closest(".lane")?.dataset.lane ?? view.focus;
  const owner = node.closest("[data-pass]");
  if (!owner || !lane) return null;
  const slot = owner.matches(".token") ? Number(owner.dataset.slot) : null;
  return { lane, pass: Number(owner.dataset.pass), slot };
}

function hover(node) {
  view.hover = targetOf(node);
  if (view.hover?.slot != null) showCard(node, stage.reader.runs[view.hover.lane], view.hover, false);
  redraw();
}

function leave() {
  if (!view.hover) return;
  view.hover = null;
  if (view.pinned?.slot != null) {
    const { lane, pass, slot } = view.pinned;
    showCard(view.lanes[lane].token(pass, slot), stage.reader.runs[lane], view.pinned, true);
  } else hideCard();
  redraw();
}

function pin(token) {
  const target = targetOf(token);
  if (!target) return;
  const same = JSON.stringify(view.pinned) === JSON.stringify(target);
  view.pinned = same ? null : target;
  view.hover = null;
  view.focus = target.lane;
  if (same) hideCard();
  else showCard(token, stage.reader.runs[target.lane], target, true);
  redraw();
}

function unpin() {
  view.pinned = view.hover = null;
  hideCard();
  redraw();
}

/** Show the forwards of a lane in the close-up. */
function focusOn({ name }) {
  view.focus = name;
  redraw();
}

/** Move the replay to the end of the forward at a place of a lane's strip. */
function scrub(lane, x) {
  const box = lane.strip.getBoundingClientRect();
  const time = (Math.min(Math.max(x - box.left, 0), box.width) / box.width) * lane.timeScale;
  pause();
  view.hover = null;
  view.focus = lane.name;
  const index = lane.run.ends.findIndex((end) => end >= time);
  goTo(index < 0 ? Math.min(time, total()) : lane.run.ends[index]);
}

const laneOf = (node) => view.lanes[node.closest(".lane")?.dataset.lane];

// ------------------------------------------------------------------------------------ pointers

function press({ target }) {
  const action = target.closest("[data-do]")?.dataset.do;
  if (action) attempt(() => actions[action](target), target);
  else if (target.matches(".token")) pin(target);
  else if (target.matches(".name")) focusOn(laneOf(target));
  else if (target.closest(".heat [data-pass]")) {
    pause();
    goTo(focused().ends[Number(target.closest("[data-pass]").dataset.pass)]);
  }
}

function listenToPointers() {
  element.addEventListener("pointerover", ({ target, buttons }) => {
    if (!buttons && target.matches(".token, .strip rect, .heat rect")) hover(target);
    else if (view.hover && !target.closest(".answer, .strip, .heat")) leave();
  });
  element.addEventListener("pointerleave", leave);
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
  element.addEventListener("click", press);
}

// ------------------------------------------------------------------------------ fields and files

function listenToFields() {
  find(".ghost-range").step = String(TAU_STEP);
  find(".ghost-range").addEventListener("input", ({ target }) => {
    view.whatIf = Number(target.value);
    redraw();
  });
  const choose = (list, showChosen) =>
    find(list).addEventListener("change", ({ target }) =>
      attempt(() => inView(showChosen(target.value)), target),
    );
  choose(".recordings", (id) => id && showRecording(id));
  choose(".beside", showBeside);
}

/** Open chosen and dropped files. */
function listenToFiles() {
  find(".file").addEventListener("change", async ({ target }) => {
    await attempt(() => inView(openFiles(target.files)), target);
    target.value = "";
  });
  const dropping = (is) => find(".stage").classList.toggle("dropping", is);
  element.addEventListener("dragover", (event) => {
    event.preventDefault();
    dropping(true);
  });
  element.addEventListener("dragleave", () => dropping(false));
  element.addEventListener("drop", (event) => {
    event.preventDefault();
    dropping(false);
    attempt(() => inView(openFiles(event.dataTransfer.files)), event.target);
  });
}

// ---------------------------------------------------------------------------------------- keys

const FIELDS =
  "input, textarea, select, [contenteditable], [role=tab], [role=listbox], [role=option]:not(.token)";

function typed(event) {
  if (!element.isConnected || !element.offsetParent || event.ctrlKey || event.metaKey || event.altKey)
    return;
  const { target, key } = event;
  if (constants.bare && !element.contains(target)) return; // a stage inside another figure
  if (key === "Escape") {
    if (view.pinned || view.hover) event.preventDefault(); // the next Escape leaves the talk view
    return unpin();
  }
  if (target.matches(".token") && key !== "Home" && key !== "End") return walk(event);
  if (target.matches(FIELDS) || (key === " " && target.matches("button")) || !(key in KEYS)) return;
  event.preventDefault();
  actions[KEYS[key]]();
}

/** Handle keys on a token: arrows move between tokens, Enter and Space pin it. */
function walk(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (by) {
    const tokens = findAll(".token", event.target.closest(".answer"));
    tokens[tokens.indexOf(event.target) + by]?.focus();
  } else if (event.key === "Enter" || event.key === " ") pin(event.target);
  else return;
  event.preventDefault();
}

function listenToKeys() {
  element.addEventListener("focusin", ({ target }) => target.matches(".token") && hover(target));
  element.addEventListener("focusout", ({ target }) => target.matches(".token") && leave());
  document.addEventListener("keydown", typed);
}

export function listen() {
  listenToPointers();
  listenToFields();
  if (constants.main) listenToFiles();
  listenToKeys();
}
