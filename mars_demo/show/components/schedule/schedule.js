// Draws schedules one below the other on a common axis of steps, and replays them.
//
// `props.value` is a JSON list of schedules, as `core/schedule.py` has them.

import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { Playback } from "../playback.js";
import { fixed, plural } from "../words.js";

const WORDS = { compute: "computes", wait: "waits", commit: "commits its block", free: "free" };

let schedules = [];
const last = () => Math.max(0, ...schedules.map(({ steps }) => steps.length));
const playback = new Playback(last, show);

/** Return a schedule with its `box` and the strip of each row. */
function drawn(schedule) {
  const box = make("section", "one");
  const title = make("p", "title", schedule.title);
  title.append(make("span", "figures"));
  const rows = make("div", "rows");
  rows.setAttribute("role", "img");
  const strips = schedule.rows.map((name, row) => {
    const strip = make("div", "cells");
    for (const [at, step] of schedule.steps.entries()) strip.append(drawnCell(step[row], at, name));
    rows.append(make("span", "name", name), strip);
    return strip;
  });
  box.append(title, rows);
  return { ...schedule, box, strips };
}

function drawnCell(state, at, name) {
  const cell = make("i", "cell");
  Object.assign(cell.dataset, { state, about: `Step ${at + 1}, ${name}: ${WORDS[state]}` });
  return cell;
}

/** Return the totals of the shown steps. */
function figures({ steps, positions, rows }) {
  const shown = steps.slice(0, playback.shown);
  const states = shown.flat();
  const total = positions.slice(0, playback.shown).reduce((sum, count) => sum + count, 0);
  const share = (state) => {
    const count = states.filter((one) => one === state).length;
    return `${fixed((100 * count) / Math.max(1, rows.length * shown.length), 0)}%`;
  };
  return [
    plural(shown.length, "forward"),
    `${total.toLocaleString("en")} positions`,
    `${share("wait")} waiting`,
    `${share("commit")} committing`,
  ].join(", ");
}

function show() {
  playback.draw();
  say(find(".at"), `step ${playback.shown} of ${last()}`);
  find(".list").style.setProperty("--steps", last());
  for (const schedule of schedules) {
    for (const strip of schedule.strips)
      for (const [at, cell] of [...strip.children].entries())
        cell.classList.toggle("ahead", at >= playback.shown);
    say(find(".figures", schedule.box), figures(schedule));
    find(".rows", schedule.box).setAttribute("aria-label", `${schedule.title}: ${figures(schedule)}`);
  }
}

find(".list").addEventListener("pointerover", ({ target }) => {
  if (target.matches(".cell")) say(find(".sentence"), target.dataset.about);
});

function update() {
  playback.follow();
  schedules = JSON.parse(props.value || "[]").map(drawn);
  find(".list").replaceChildren(...schedules.map(({ box }) => box));
  show();
}

watch("value", update);
update();
