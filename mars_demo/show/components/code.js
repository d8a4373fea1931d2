// Code in a text, marked as in Markdown: fenced blocks and `inline` code.

import { make } from "./dom.js";

/**
 * Code in a text: `start` and `end` include its marks, `from` and `to` do not.
 * @typedef {{ kind: "block" | "inline", start: number, end: number, from: number, to: number }} Code
 */

const FENCE = /^[ \t]*(`{3,}(?=[^`]*$)|~{3,})/;
const CLOSING = /^[ \t]*(`+|~+)[ \t]*$/;
const INLINE = /(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)/g;

/**
 * Return the code in a text, in order. An unclosed block ends with the text; an incomplete mark counts as
 * text.
 */
export function codeIn(/** @type {string} */ text) {
  if (!/[`~]/.test(text)) return [];
  /** @type {Code[]} */
  const codes = [];
  /** @type {{ start: number, from: number, fence: string } | null} */
  let block = null;
  let at = 0;
  for (const line of text.split("\n")) {
    const end = at + line.length;
    /** @type {RegExpExecArray | null} */
    const fence = block ? null : FENCE.exec(line);
    if (fence) block = { start: at, from: end + 1, fence: fence[1] };
    else if (!block) codes.push(...inlineIn(line, at));
    else if (closes(line, block.fence)) {
      codes.push(blockOf(block, end, at - 1));
      block = null;
    }
    at = end + 1;
  }
  if (block) codes.push(blockOf(block, text.length, text.length));
  return codes;
}

/**
 * @param {{ start: number, from: number }} opened
 * @param {number} end
 * @param {number} to
 * @returns {Code}
 */
function blockOf({ start, from }, end, to) {
  return { kind: "block", start, end, from, to: Math.max(from, to) };
}

/** Whether a line closes the block that `fence` opened. */
function closes(/** @type {string} */ line, /** @type {string} */ fence) {
  const marks = CLOSING.exec(line)?.[1];
  return marks !== undefined && marks[0] === fence[0] && marks.length >= fence.length;
}

/**
 * @param {string} line
 * @param {number} at the line's index in the text
 * @returns {Code[]}
 */
function inlineIn(line, at) {
  return [...line.matchAll(INLINE)].map(({ 0: whole, 1: marks, index }) => {
    const [start, end] = [at + index, at + index + whole.length];
    return { kind: "inline", start, end, from: start + marks.length, to: end - marks.length };
  });
}

/**
 * Return a text as nodes, with its code in elements.
 * @param {string} text
 * @returns {(string | HTMLElement)[]}
 */
export function drawnText(text) {
  const nodes = [];
  let at = 0;
  for (const { kind, start, end, from, to } of codeIn(text)) {
    const isBlock = kind === "block";
    const before = text.slice(at, start);
    nodes.push(isBlock ? before.replace(/\n$/, "") : before);
    nodes.push(make(isBlock ? "pre" : "code", "code", text.slice(from, to)));
    at = isBlock && text[end] === "\n" ? end + 1 : end;
  }
  return [...nodes, text.slice(at)];
}
