// The races of this visit, to compare and to reopen.

import { find, make } from "../dom.js";
import { visible } from "../words.js";
import { baselineOf, compared } from "./modes.js";
import { firstDifference } from "./passes.js";

const KEPT = 8;
const rows = []; // newest first

/** Add a race; `open` reopens it. */
export function keep(runs, open) {
  rows.unshift(rowOf(runs, open));
  rows.splice(KEPT);
  find(".history tbody").replaceChildren(...rows);
  find(".history").hidden = false;
}

function rowOf(runs, open) {
  const button = make("button", "past", promptOf(Object.values(runs)[0]));
  button.type = "button";
  button.addEventListener("click", open);
  const first = make("td", "");
  first.append(button);
  const row = make("tr", "");
  const cellOf = (words) => {
    const texts = compared(runs).map((run) => words(run, baselineOf(run, runs)));
    return make("td", "", texts.join(" · "));
  };
  row.append(first, ...[settingsOf, rateOf, speedOf, agreementOf].map(cellOf));
  return row;
}

/** Return the prompt of a run, with an arrow if it continues a conversation. */
const promptOf = ({ settings: { prompt, messages } }) =>
  (messages.length ? "↳ " : "") + visible(prompt).replaceAll("␣", " ");

function settingsOf(run) {
  if (!run.mode.uses_tau) return run.mode.title;
  const taus = [...new Set(run.passes.map((pass) => pass.tau))];
  return taus.length > 2 ? `τ ${Math.min(...taus)}–${Math.max(...taus)}` : `τ ${taus.join(" → ")}`;
}

const rateOf = (run) => (run.ids.length / Math.max(1, run.forwards)).toFixed(2);

const speedOf = (run, baseline) =>
  baseline?.ms && run.ms && run !== baseline ? (run.speed / baseline.speed).toFixed(2) : "–";

function agreementOf(run, baseline) {
  if (!baseline || run === baseline) return "–";
  if (baseline.stopped || run.stopped) return "stopped";
  const index = firstDifference(baseline.ids, run.ids);
  return index === null ? "same" : `differs from ${index + 1}`;
}
