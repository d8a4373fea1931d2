// Marks of code in an answer; its tokens keep their colours, brackets and cards.

import { make } from "../dom.js";
import { codeIn } from "../code.js";

export class CodeMarks {
  constructor(answer) {
    this.answer = answer;
    this.layer = make("div", "code-blocks"); // boxes below the tokens of blocks
    this.layer.setAttribute("aria-hidden", true);
    answer.append(this.layer);
    this.blocks = []; // the first and the last character of each block: [token, offset]
    this.marked = new WeakMap(); // the inline code of each token
  }

  /** Mark the code in the text of these tokens. */
  draw(tokens) {
    const texts = tokens.map((token) => token.textContent);
    const text = texts.join("");
    const codes = /[`~]/.test(text) ? codeIn(text) : [];
    const starts = [];
    let end = 0;
    for (const one of texts) {
      starts.push(end);
      end += one.length;
    }
    const place = (at) => {
      const index = starts.findLastIndex((start) => start <= at);
      return [tokens[index], at - starts[index]];
    };
    this.blocks = codes
      .filter(({ kind }) => kind === "block")
      .map(({ start, end }) => [
        place(start + text.slice(start).search(/\S/)),
        place(start + text.slice(start, end).trimEnd().length - 1),
      ]);
    const inline = codes.filter(({ kind }) => kind === "inline");
    for (const [index, token] of tokens.entries())
      this.markInline(token, texts[index], starts[index], inline);
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

  /** Place the boxes at the tokens of their blocks. */
  fit() {
    while (this.layer.children.length > this.blocks.length) this.layer.lastChild.remove();
    while (this.layer.children.length < this.blocks.length) this.layer.append(make("i", "code-block"));
    if (!this.blocks.length || !this.answer.offsetParent) return; // no positions on a hidden tab
    const top = this.answer.getBoundingClientRect().top - this.answer.scrollTop;
    const boxes = this.blocks.map(([first, last]) => [boxOf(first).top - top, boxOf(last).bottom - top]);
    boxes.forEach(([from, to], index) => {
      const { style } = this.layer.children[index];
      style.top = `${from}px`;
      style.height = `${to - from}px`;
    });
  }
}

/** Return the box of a character of a token. */
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
