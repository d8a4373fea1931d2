// The panel "Why this speed?": cost and acceptance of the forwards of a finished run, and where its time
// went.

import { drawBars, find, make, say } from "../dom.js";
import { fixed, plural } from "../words.js";
import { reasons } from "./reasons.js";
import { costPoints, sizesOf, slotsOf, timesOf } from "./speed.js";

let drawn = null; // the run

/** Draw the panel of a run when the race is `over`; hide it before. */
export function drawWhy(run, baseline, over) {
  const panel = find(".why");
  panel.hidden = !over || !run?.passes.length;
  if (panel.hidden) drawn = null;
  if (panel.hidden || run === drawn) return;
  drawn = run;
  say(find(".why-whose", panel), run.title);
  const points = costPoints(run, baseline);
  find(".reasons", panel).replaceChildren(
    ...reasons(run, baseline, points).map((sentence) => make("p", "", sentence)),
  );
  const costs = costRows(run, baseline);
  drawBars(find(".cost ol", panel), costs);
  find(".cost", panel).hidden = !costs.length;
  drawBars(find(".by-slot", panel), slotRows(run));
  drawTimes(find(".times", panel), run);
}

// ---------------------------------------------------------------------------------------------- bars

/** Return a row per size of forwards, after that of the baseline's forwards. */
function costRows(run, baseline) {
  const single =
    run !== baseline && baseline ? sizesOf(baseline).filter(({ positions }) => positions === 1) : [];
  const sizes = [...single, ...sizesOf(run)];
  const slowest = Math.max(...sizes.map(({ ms }) => ms));
  return sizes.map(({ positions, count, ms }, index) => ({
    name: plural(positions, "position") + (index < single.length ? ", one token per forward" : ""),
    share: ms / slowest,
    text: `${fixed(ms, 1)} ms (${count}×)`,
  }));
}

const slotRows = (run) =>
  slotsOf(run).map(({ had, accepted }, index) => {
    const share = had ? accepted / had : 0;
    return { name: `${index + 1}`, share, text: `${fixed(100 * share, 0)}% (${accepted} of ${had})` };
  });

function drawTimes(figure, run) {
  const { prefill, others, parts } = timesOf(run);
  const drafted = run.mode.needs_draft ? "drafts, " : "";
  const named = parts
    ? [
        ["prefill", prefill],
        ["model", parts.model],
        ["reading logits", parts.read],
        [`${drafted}recording`, parts.rest],
      ]
    : [
        ["prefill", prefill],
        ["other forwards", others],
      ];
  const row = (/** @type {any[]} */ [name, ms]) => ({
    name,
    share: run.ms ? ms / run.ms : 0,
    text: `${fixed((100 * ms) / (run.ms || 1), 0)}% (${fixed(ms, 0)} ms)`,
  });
  drawBars(find("ol", figure), named.map(row));
  const missing =
    parts || run.passes.length < 2
      ? ""
      : " This record does not separate the model from reading its logits.";
  say(
    find(".times-words", figure),
    `The clock counts forwards only, not the page or the connection.${missing}`,
  );
}
