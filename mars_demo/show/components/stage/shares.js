// The numbers of tokens that forwards accepted, and would have accepted at another τ.

import { acceptedAt } from "../acceptance.js";
import { drawBars, find, say } from "../dom.js";
import { allowsOtherTau } from "./passes.js";
import { fixed, tauText } from "../words.js";

/** Draw the shares of the first `count` forwards that accepted 1, 2, … tokens. */
export function drawShares(run, count) {
  const passes = run?.passes.slice(0, count) ?? [];
  const rows = Array.from({ length: run?.most ?? 0 }, (_, index) => {
    const found = passes.filter(({ accepted }) => accepted === index + 1).length;
    const share = found / Math.max(1, count);
    return { name: `${index + 1}`, share, text: found ? `${fixed(100 * share, 0)}% (${found})` : "" };
  });
  drawBars(find(".shares"), rows);
}

/** Draw what a finished run would have accepted at another τ; null if the visitor has not chosen one. */
export function drawWhatIf(run, number, tau) {
  const box = find(".ghost");
  box.hidden = !run?.done || !allowsOtherTau(run) || !run.passes.length;
  if (box.hidden) return;
  const start = run.passes.at(-1).tau ?? run.settings.tau;
  if (tau === null) find(".ghost-range").value = start;
  say(find(".ghost-tau"), tauText(tau ?? start));
  const again = find('[data-do="again"]');
  again.hidden = tau === null;
  say(again, `Run again with τ ${tauText(tau ?? start)}`);
  say(
    find(".ghost-words"),
    tau === null
      ? "Move the slider to see what each forward would have accepted."
      : whatIf(run, number, tau),
  );
}

function whatIf(run, number, tau) {
  const pass = run.passes[Math.max(0, number)];
  const accepted = acceptedAt(pass, tau);
  const here =
    accepted === pass.accepted ? `${accepted} as well` : `${accepted} instead of ${pass.accepted}`;
  const changed = run.passes.filter((one) => acceptedAt(one, tau) !== one.accepted).length;
  return (
    `Forward ${pass.pass} would have accepted ${here}. ` +
    `Taken alone, ${changed} of ${run.passes.length} forwards would differ; ` +
    "after a change, later forwards would have read another text."
  );
}
