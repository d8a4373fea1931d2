// Draws schedules one below the other on a common axis of steps, and replays them.
//
// `props.value` is JSON lines: the heading of each schedule, followed by its steps.

import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { Lines } from "../lines.js";
import { Playback } from "../playback.js";
import { plural, seconds } from "../words.js";

const WORDS = { compute: "computes", wait: "waits", commit: "commits its block", free: "free" };

const lines = new Lines();
let schedules = [];
const last = () => Math.max(0, ...schedules.map(({ steps }) => steps.length));
const playback = new Playback(last, show);

/** Read a line of the value: the heading of a schedule, or the next step of the last one. */
function take(line) {
  if (line.title === undefined) return addStep(schedules.at(-1), line);
  const box = make("section", "one");
  const title = make("p", "title", line.title);
  title.append(make("span", "figures"));
  const rows = make("div", "rows");
  rows.setAttribute("role", "img");
  const cells = line.rows.map((text) => {
    const strip = make("div", "cells");
    rows.append(make("span", "name", text), strip);
    return strip;
  });
  box.append(title, rows);
  find(".list").append(box);
  schedules.push({ ...line, steps: [], box, cells });
}

function addStep(schedule, line) {
  const before = schedule.steps.at(-1)?.prompts;
  schedule.steps.push(line);
  schedule.cells.forEach((strip, row) => {
    const cell = make("i", "cell");
    cell.dataset.state = line.step[row];
    const prompt = line.prompts?.[row] ?? null;
    cell.classList.toggle("begins", prompt !== null && prompt !== (before?.[row] ?? null));
    strip.append(cell);
  });
}

/** Return the totals of the shown steps. */
function figures({ steps, rows }) {
  const shown = steps.slice(0, playback.shown);
  const sum = (key) => shown.reduce((total, line) => total + line[key], 0);
  const share = (state) => {
    const count = shown.reduce((total, line) => total + line.step.filter((one) => one === state).length, 0);
    return `${Math.round((100 * count) / Math.max(1, rows.length * shown.length))}%`;
  };
  return [
    plural(shown.length, "forward"),
    ...(shown[0]?.positions === undefined ? [] : [`${sum("positions").toLocaleString("en")} positions`]),
    ...(shown[0]?.ms === undefined ? [] : [seconds(sum("ms"))]),
    `${share("wait")} waiting`,
    `${share("commit")} committing`,
  ].join(", ");
}

function show() {
  playback.draw();
  say(find(".at"), `step ${playback.shown} of ${last()}`);
  find(".list").style.setProperty("--steps", last());
  find(".begun").hidden = !schedules.some(({ prompts }) => prompts.length);
  for (const schedule of schedules) {
    for (const strip of schedule.cells)
      for (const [at, cell] of [...strip.children].entries())
        cell.classList.toggle("ahead", at >= playback.shown);
    say(find(".figures", schedule.box), figures(schedule));
    find(".rows", schedule.box).setAttribute("aria-label", `${schedule.title}: ${figures(schedule)}`);
  }
}

/** Describe a cell. */
function describe(cell) {
  const strip = cell.parentElement;
  const { cells, rows, steps, prompts } = schedules.find((schedule) => schedule.cells.includes(strip));
  const at = [...strip.children].indexOf(cell);
  const row = cells.indexOf(strip);
  const text = prompts[steps[at].prompts?.[row]];
  say(
    find(".sentence"),
    `Step ${at + 1}, ${rows[row]}: ${WORDS[cell.dataset.state]}${text ? ` – ${text}` : ""}`,
  );
}

find(".list").addEventListener("pointerover", ({ target }) => target.matches(".cell") && describe(target));

function clear() {
  schedules = [];
  find(".list").replaceChildren();
}

function update() {
  playback.follow();
  for (const line of lines.take(props.value || "", clear)) take(JSON.parse(line));
  show();
}

watch("value", update);
update();
