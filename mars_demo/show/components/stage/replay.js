// The replay of the record on its own clock.

import { drawPlay, find, findAll, say } from "../dom.js";
import { seconds } from "../words.js";
import { hideCard } from "./card.js";
import { focused, redraw, total, view } from "./state.js";

const AUTO = 6000; // ms, the least duration of a replay

export function goTo(time) {
  view.time = time !== null && time >= total() ? null : time;
  view.pinned = null;
  hideCard();
  redraw();
}

export function pause() {
  view.playing = null;
  view.intro = false;
}

/** Step by forwards of the focused lane; the other lanes follow the clock. */
export function step(by) {
  pause();
  const run = focused();
  if (!run) return;
  const at = run.passesAt(view.time) + by;
  goTo(at <= 0 ? 0 : at > run.passes.length ? null : run.ends[at - 1]);
}

export function play() {
  if (view.playing !== null) {
    pause();
    return redraw();
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
  view.time = (view.time ?? 0) + Math.max(0, now - view.playing) * speed();
  view.playing = now;
  if (view.time >= total()) {
    pause();
    view.time = null;
  }
  redraw();
  if (view.playing !== null) requestAnimationFrame(frame);
}

function speed() {
  const chosen = find(".speed").value;
  return chosen === "auto" ? Math.min(1, total() / AUTO) : Number(chosen);
}

export function drawReplay() {
  const end = total();
  say(find(".clock"), end ? `${seconds(view.time ?? end)} of ${seconds(end)}` : "");
  drawPlay(view.playing !== null);
  for (const button of findAll(".replay button")) button.disabled = !end;
}

/** Play the first recording once as soon as it is visible; any input ends that. */
export function introduce() {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      play();
      view.intro = true;
    },
    { threshold: 0.5 },
  );
  observer.observe(find(".lane"));
  // On the window, so that the stage's own controls have handled the input before.
  const end = () => {
    observer.disconnect();
    if (!view.intro) return;
    pause();
    view.time = null;
    redraw();
  };
  for (const kind of ["click", "input", "keydown"]) addEventListener(kind, end);
}
