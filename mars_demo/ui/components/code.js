// Code in a text, as Markdown marks it: fenced blocks and `inline` code. It is found in text and drawn as text.

import { make } from "./dom.js";

const FENCE = /^[ \t]*(`{3,}(?=[^`]*$)|~{3,})/;
const CLOSING = /^[ \t]*(`+|~+)[ \t]*$/;
const INLINE = /(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)/g;

/** The code in a text, in order: `start` and `end` with its marks, `from` and `to` without them. A block that
 * nothing closes goes on to the end; a mark that is still being written is no mark. */
export function codeIn(text) {
  const found = [];
  let block = null;
  let at = 0;
  for (const line of text.split("\n")) {
    const end = at + line.length;
    const fence = block ? null : FENCE.exec(line);
    if (fence) block = { kind: "block", start: at, from: end + 1, fence: fence[1] };
    else if (!block) found.push(...inlineIn(line, at));
    else if (closes(line, block.fence)) {
      found.push({ ...block, end, to: Math.max(block.from, at - 1) });
      block = null;
    }
    at = end + 1;
  }
  if (block) found.push({ ...block, end: text.length, to: Math.max(block.from, text.length) });
  return found;
}

function closes(line, fence) {
  const marks = CLOSING.exec(line)?.[1];
  return Boolean(marks) && marks[0] === fence[0] && marks.length >= fence.length;
}

function inlineIn(line, at) {
  return [...line.matchAll(INLINE)].map(({ 0: whole, 1: marks, index }) => {
    const [start, end] = [at + index, at + index + whole.length];
    return { kind: "inline", start, end, from: start + marks.length, to: end - marks.length };
  });
}

/** A whole text as nodes, its code in elements of its own. */
export function drawnText(text) {
  const nodes = [];
  let at = 0;
  for (const { kind, start, end, from, to } of codeIn(text)) {
    const before = text.slice(at, start);
    nodes.push(kind === "block" ? before.replace(/\n$/, "") : before, make(kind === "block" ? "pre" : "code", "code", text.slice(from, to)));
    at = kind === "block" && text[end] === "\n" ? end + 1 : end;
  }
  return [...nodes, text.slice(at)];
}
