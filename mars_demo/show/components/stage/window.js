// The window of one forward, with a column per slot, on a phone a row.

import { isForced } from "../acceptance.js";
import { find, make, makeBar, say } from "../dom.js";
import { plural, tauText, visible } from "../words.js";
import { candidate, colour, isCopy, scoreText, stateOf } from "./passes.js";

const STATES = {
  accepted: ["✓", "accepted"],
  forced: ["□", "forced"],
  rejected: ["✗", "first below τ"],
  unread: ["○", "ignored"],
  draft: ["◇", "draft, verified by the next forward"],
  filled: ["●", "filled, waiting for the slots before it"],
  replaced: ["✗", "draft that the model replaced"],
};

/**
 * Return the rows of the window: {state, text, score, source, slot, count}. In verifying modes they include the
 * rejected drafts of the previous forward.
 */
function rowsOf(run, number) {
  const pass = run.passes[number];
  const end = endOf(run);
  const rows = pass.slots.flatMap(({ id, score, source, top }, slot) => {
    const state = stateOf(run, number, slot);
    // Under a grammar, slots after its end or a rejected one may have no reading.
    if (run.settings.grammar && state === "unread" && !score && !top.length) return [];
    return { state, text: id === end ? "end" : candidate(pass, slot), score, source, slot };
  });
  rows.splice(pass.accepted, 0, ...rejectedDrafts(run, number));
  return rows.reduce(joined, []);
}

/** Add a row; a forced one joins the forced ones before it, so that the slots keep their room. */
function joined(rows, row) {
  const last = rows.at(-1);
  if (row.state !== "forced" || last?.state !== "forced") return [...rows, { ...row, count: 1 }];
  return [...rows.slice(0, -1), { ...last, text: last.text + row.text, count: last.count + 1 }];
}

/** Return the id of the end token of a run that ended with one; slots beyond it often have it too. */
function endOf({ passes }) {
  const last = passes.at(-1);
  return last.stop === "eos" ? last.slots[last.accepted - 1].id : null;
}

function rejectedDrafts(run, number) {
  const pass = run.passes[number];
  if (run.mode.beyond !== "draft" || !number || pass.verified >= pass.drafts || pass.stop === "eos")
    return [];
  const before = run.passes[number - 1];
  const drafts = before.slots.slice(before.accepted, before.accepted + pass.drafts);
  return drafts
    .slice(pass.verified)
    .map(({ text, score, source }, index) => ({
      state: index ? "unread" : "replaced",
      text: visible(text),
      score,
      source,
      slot: null,
    }));
}

function captionOf(pass) {
  const tau = pass.tau === null ? "" : `, τ ${tauText(pass.tau)}`;
  const start = `forward ${pass.pass}: `;
  const forced = pass.slots.slice(0, pass.accepted).filter(isForced).length;
  if (forced) return `${start}${pass.accepted} accepted, ${forced} forced${tau}`;
  if (pass.drafts === undefined)
    return `${start}${pass.accepted} of ${plural(pass.slots.length, "slot")} accepted${tau}`;
  if (!pass.drafts) return `${start}no draft to verify yet, ${pass.accepted} accepted${tau}`;
  const drafted = pass.draft_forwards
    ? ` (made in ${plural(pass.draft_forwards, "forward")} of the draft model)`
    : "";
  const verified = `${pass.verified} of ${plural(pass.drafts, "draft")}${drafted} verified`;
  return `${start}${verified}, ${pass.accepted} accepted${tau}`;
}

/** Draw the window; `chosen` is the slot to highlight. */
export function drawWindow(run, number, chosen) {
  const panel = find(".window");
  const pass = run?.passes[number];
  const caption = pass ? captionOf(pass) : "before the first forward";
  find(".to-mask", panel).disabled = !pass;
  say(find(".caption", panel), run ? `${run.title}, ${caption}` : "");
  const rows = pass ? rowsOf(run, number) : [];
  const threshold = Boolean(pass) && pass.tau !== null && pass.slots.length > 1;
  drawRows(find(".slots", panel), run, pass, rows, chosen, threshold);
  say(find(".legend", panel), legendOf(run, rows, threshold).join("   "));
}

function drawRows(list, run, pass, rows, chosen, threshold) {
  list.classList.toggle("threshold", threshold);
  if (threshold) list.style.setProperty("--tau", pass.tau);
  if (pass) {
    list.style.setProperty("--window", run.rows);
    list.dataset.beyond = run.mode.beyond;
    colour(list, pass);
  }
  list.replaceChildren(...rows.map((row) => nodeOf(run, row, chosen)));
}

function nodeOf(run, row, chosen) {
  const [sign, words] = STATES[row.state];
  const node = make(
    "li",
    chosen !== null && chosen >= row.slot && chosen < row.slot + row.count ? "slot inspected" : "slot",
  );
  node.dataset.state = row.state;
  node.dataset.column = row.state === "draft" ? "drafts" : "read";
  const [mark, bar] = [make("span", "mark", sign), makeBar()];
  mark.title = words;
  bar.style.setProperty("--share", row.score);
  const text = make("span", isCopy(row) ? "candidate copied" : "candidate", row.text);
  const score = row.state === "forced" ? plural(row.count, "token") : scoreText(run, row.score);
  node.append(mark, text, bar, make("span", "score", score));
  return node;
}

function legendOf(run, rows, threshold) {
  const legend = [...new Set(rows.map((row) => row.state))].map((state) => STATES[state].join(" "));
  if (rows.some((row) => isCopy(row) && row.state !== "replaced")) legend.push("dotted line: n-gram draft");
  if (!threshold || run.mode.beyond !== "unread") return legend;
  const always = run.mode.needs_draft ? "verified drafts and the token after them are" : "slot 1 is";
  return [...legend, `${always} always accepted`];
}
