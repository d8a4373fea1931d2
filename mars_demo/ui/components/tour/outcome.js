// What a race showed, in words that are made from its record, beside what the visitor had predicted.

import { plural } from "../words.js";

/** What can be asked about a run: the number, and how it is told. */
const MEASURES = {
  first: {
    of: ([first]) => first.length,
    told: ({ title, accepted: [first] }) =>
      `The first forward of ${title} accepted ${plural(first.length, "token")}: “${first.map(({ text }) => text.replaceAll("\n", "↵")).join("")}”.`,
  },
  copied: {
    of: (accepted) => copies(accepted.flat()),
    told: ({ title, accepted }) =>
      `${title} copied ${copies(accepted.flat())} of ${plural(accepted.flat().length, "token")}, ` +
      `at most ${Math.max(...accepted.map(copies))} in one forward.`,
  },
};

const copies = (slots) => slots.filter(({ source }) => source === "copy").length;

/** A choice holds from its first number to its second, which is null where it has no end. */
export function choiceText([from, to]) {
  if (to === null) return `${from} or more`;
  return from === to ? (from === 0 ? "none" : `${from}`) : `${from} to ${to}`;
}

const holds = ([from, to], number) => number >= from && (to === null || number <= to);

/** The sentences; null where `run` stopped before it had an answer to the question. */
export function outcome(asks, choice, run, baseline) {
  if (run.stopped || !run.accepted.length) return null;
  const { of, told } = MEASURES[asks];
  const number = of(run.accepted);
  const predicted = `You predicted ${choiceText(choice)}; it was ${number || "none"}${holds(choice, number) ? ", as you said" : ""}.`;
  return [predicted, told(run), ...(baseline ? [compared(run, baseline)] : [])];
}

function compared({ accepted, title }, baseline) {
  const forwards = plural(accepted.length, "forward");
  return `${title} wrote ${plural(accepted.flat().length, "token")} in ${forwards}, one token at a time took ${baseline.accepted.length}.`;
}
