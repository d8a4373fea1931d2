// The races of this visit, to compare and to reopen, and their totals.

import { find, make, say } from "../dom.js";
import { plural, seconds, visible } from "../words.js";
import { baselineOf, compared } from "./modes.js";
import { firstDifference } from "./passes.js";

const KEPT = 8;
const rows = []; // newest first
const counted = new Map(); // run id → whether the totals include it; a branch comes with other runs
const sums = { tokens: 0, forwards: 0, saved: 0, timed: 0 };

/** Add a race; `open` reopens it. */
export function keep(runs, open) {
  rows.unshift(rowOf(runs, open));
  rows.splice(KEPT);
  find(".history tbody").replaceChildren(...rows);
  find(".history").hidden = false;
  for (const run of Object.values(runs)) count(run, baselineOf(run, runs));
  say(find(".totals"), totals());
  find(".totals").hidden = false;
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
  const from = run.branch ? `⑂ token ${run.branch.at + 1}, ` : "";
  if (!run.mode.uses_tau) return from + run.mode.title;
  const taus = [...new Set(run.passes.map((pass) => pass.tau))];
  return from + (taus.length > 2 ? `τ ${Math.min(...taus)}–${Math.max(...taus)}` : `τ ${taus.join(" → ")}`);
}

const rateOf = (run) => (run.ids.length / Math.max(1, run.forwards)).toFixed(2);

/** Whether two speeds are comparable: not those of branches, which can reuse the cached prompt. */
const isTimed = (run, baseline) => Boolean(baseline?.ms && run.ms && run !== baseline && !run.branch);
const speedOf = (run, baseline) => (isTimed(run, baseline) ? (run.speed / baseline.speed).toFixed(2) : "–");

function agreementOf(run, baseline) {
  if (!baseline || run === baseline) return "–";
  if (baseline.stopped || run.stopped) return "stopped";
  const index = firstDifference(baseline.answerIds, run.answerIds);
  return index === null ? "same" : `differs from ${index + 1}`;
}

// ------------------------------------------------------------------------------------- the totals

/** Exclude runs of other visits from the totals, even if one of them is branched here. */
export function leaveOut(runs) {
  for (const { settings } of Object.values(runs))
    counted.set(settings.run, counted.get(settings.run) ?? false);
}

function count(run, baseline) {
  if (counted.has(run.settings.run)) return;
  counted.set(run.settings.run, true);
  sums.tokens += run.ids.length;
  sums.forwards += run.forwards;
  if (!isTimed(run, baseline)) return;
  sums.timed++;
  sums.saved += run.ids.length / baseline.speed - run.ms;
}

function totals() {
  const { tokens, forwards, saved, timed } = sums;
  const runs = [...counted.values()].filter(Boolean).length;
  const rate = (tokens / Math.max(1, forwards)).toFixed(2);
  const counts = `${plural(runs, "run")}, ${plural(tokens, "token")} in ${plural(forwards, "forward")}`;
  const all = `This visit: ${counts}, ${rate} tokens per forward.`;
  if (!timed) return all;
  const which = timed === 1 ? "One of them" : `${timed} of them together`;
  const difference = `${seconds(Math.abs(saved))} ${saved < 0 ? "more" : "less"}`;
  return `${all} ${which} took ${difference} than the same tokens would have taken one at a time.`;
}
