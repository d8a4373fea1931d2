// The races of this visit, to compare and to open again.

import { find, make } from "../dom.js";
import { visible } from "../words.js";
import { sides } from "./modes.js";
import { firstDifference } from "./passes.js";

const KEPT = 8;
const rows = []; // newest first

/** `open` puts the race back on the stage. */
export function keep(runs, open) {
  rows.unshift(rowOf(runs, open));
  rows.splice(KEPT);
  find(".history tbody").replaceChildren(...rows);
  find(".history").hidden = false;
}

function rowOf(runs, open) {
  const [baseline, others] = sides(runs);
  const button = make("button", "past", promptOf(Object.values(runs)[0]));
  button.type = "button";
  button.addEventListener("click", open);
  const first = make("td", "");
  first.append(button);
  const row = make("tr", "");
  const columns = [settingsOf, rateOf, speedOf, agreementOf];
  row.append(first, ...columns.map((words) => make("td", "", others.map((run) => words(run, baseline)).join(" · "))));
  return row;
}

/** An arrow marks one that continues a conversation. */
const promptOf = ({ settings: { prompt, messages } }) => (messages.length ? "↳ " : "") + visible(prompt).replaceAll("␣", " ");

function settingsOf(run) {
  if (!run.mode.uses_tau) return run.mode.title;
  const seen = [...new Set(run.passes.map((pass) => pass.tau))];
  return seen.length > 2 ? `τ ${Math.min(...seen)}–${Math.max(...seen)}` : `τ ${seen.join(" → ")}`;
}

const rateOf = (run) => (run.ids.length / Math.max(1, run.passes.length)).toFixed(2);
const speedOf = (run, baseline) => (baseline?.ms && run.ms ? (run.speed / baseline.speed).toFixed(2) : "–");

function agreementOf(run, baseline) {
  if (!baseline || baseline.stopped || run.stopped) return "stopped";
  const index = firstDifference(baseline.ids, run.ids);
  return index === null ? "same" : `differs from ${index + 1}`;
}
