// Code in an answer, marked among its tokens, which keep their colours, brackets and cards.

import { make } from "../dom.js";
import { codeIn } from "../code.js";

export class CodeMarks {
  constructor(answer) {
    this.answer = answer;
    this.layer = make("div", "code-blocks"); // boxes below the tokens of blocks
    this.layer.setAttribute("aria-hidden", true);
    answer.append(this.layer);
    this.blocks = []; // of each the first and the last character: [token, offset]
    this.marked = new WeakMap(); // of tokens with inline code in them, where
  }

  /** Mark the code in the text that these tokens make. */
  draw(tokens) {
    const texts = tokens.map((token) => token.textContent);
    const text = texts.join("");
    const found = /[`~]/.test(text) ? codeIn(text) : [];
    const starts = [];
    texts.reduce((at, one, index) => ((starts[index] = at), at + one.length), 0);
    const place = (at) => {
      const index = starts.findLastIndex((start) => start <= at);
      return [tokens[index], at - starts[index]];
    };
    this.blocks = found
      .filter(({ kind }) => kind === "block")
      .map(({ start, end }) => [place(start + text.slice(start).search(/\S/)), place(start + text.slice(start, end).trimEnd().length - 1)]);
    const inline = found.filter(({ kind }) => kind === "inline");
    tokens.forEach((token, index) => this.markInline(token, texts[index], starts[index], inline));
    this.fit();
  }

  markInline(token, text, at, inline) {
    const pieces = inline
      .map(({ from, to }) => [Math.max(0, from - at), Math.min(text.length, to - at)])
      .filter(([from, to]) => from < to);
    const key = pieces.join(";");
    if ((this.marked.get(token) ?? "") === key) return;
    this.marked.set(token, key);
    const nodes = [];
    let done = 0;
    for (const [from, to] of pieces) {
      nodes.push(text.slice(done, from), make("code", "code", text.slice(from, to)));
      done = to;
    }
    token.replaceChildren(...[...nodes, text.slice(done)].filter(Boolean));
  }

  /** Put the boxes where the tokens of their blocks are. */
  fit() {
    while (this.layer.children.length > this.blocks.length) this.layer.lastChild.remove();
    while (this.layer.children.length < this.blocks.length) this.layer.append(make("i", "code-block"));
    if (!this.blocks.length || !this.answer.offsetParent) return; // on a hidden tab nothing has a place
    const top = this.answer.getBoundingClientRect().top - this.answer.scrollTop;
    const boxes = this.blocks.map(([first, last]) => [boxOf(first).top - top, boxOf(last).bottom - top]);
    boxes.forEach(([from, to], index) => {
      const { style } = this.layer.children[index];
      style.top = `${from}px`;
      style.height = `${to - from}px`;
    });
  }
}

/** Where one character of a token is. */
function boxOf([token, offset]) {
  const walker = document.createTreeWalker(token, NodeFilter.SHOW_TEXT);
  let node = walker.nextNode();
  while (offset >= node.length) {
    offset -= node.length;
    node = walker.nextNode();
  }
  const range = document.createRange();
  range.setStart(node, offset);
  range.setEnd(node, offset + 1);
  return range.getClientRects()[0];
}
