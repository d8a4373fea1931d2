// The outcome of a race in words, from its record, and the prediction of the visitor.

import { plural } from "../words.js";

/** The questions about a run: the measured number and a sentence about it. */
const MEASURES = {
  first: {
    of: ([first]) => first.length,
    sentence: ({ title, accepted: [first] }) => {
      const text = first.map(({ text }) => text.replaceAll("\n", "↵")).join("");
      return `The first forward of ${title} accepted ${plural(first.length, "token")}: “${text}”.`;
    },
  },
  copied: {
    of: (accepted) => copies(accepted.flat()),
    sentence: ({ title, accepted }) =>
      `${title} took ${copies(accepted.flat())} of ${plural(accepted.flat().length, "token")} from earlier text, ` +
      `at most ${Math.max(...accepted.map(copies))} in one forward.`,
  },
};

const copies = (slots) => slots.filter(({ source }) => source === "copy").length;

/** Write a choice, a range from its first number to its second; null has no end. */
export function choiceText([from, to]) {
  if (to === null) return `${from} or more`;
  return from === to ? (from === 0 ? "none" : `${from}`) : `${from} to ${to}`;
}

const includes = ([from, to], number) => number >= from && (to === null || number <= to);

/** Return the sentences; null if `run` stopped too early to answer the question. */
export function outcome(asks, choice, run, baseline) {
  if (run.stopped || !run.accepted.length) return null;
  const { of, sentence } = MEASURES[asks];
  const number = of(run.accepted);
  const agreement = includes(choice, number) ? ", as you predicted" : "";
  const predicted = `You predicted ${choiceText(choice)}; it was ${number || "none"}${agreement}.`;
  return [predicted, sentence(run), ...(baseline ? [compared(run, baseline)] : [])];
}

function compared({ accepted, title }, baseline) {
  const size = `${plural(accepted.flat().length, "token")} in ${plural(accepted.length, "forward")}`;
  return `${title} wrote ${size}; one token at a time took ${baseline.accepted.length}.`;
}
