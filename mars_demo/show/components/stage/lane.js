// One side of the race: its answer, counters and strip of forwards.

import { acceptedAt, isForced } from "../acceptance.js";
import { draw, find, findAll, make, say, set } from "../dom.js";
import { fixed, tauText } from "../words.js";
import { candidate, colour, describe, isCopy, isEnd } from "./passes.js";

const NICE = [1, 2, 5];

/**
 * Return the smallest 1, 2 or 5 times a power of ten that is at least `value`, so that scales seldom
 * change.
 */
export function scaleFor(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 1e-3)));
  return power * (NICE.find((step) => step * power >= value) ?? 10);
}

export class Lane {
  constructor({ lane: name, title }) {
    this.name = name;
    this.root = find(".lane-template").content.cloneNode(true).firstElementChild;
    this.root.dataset.lane = name;
    this.answer = find(".answer", this.root);
    this.strip = find(".strip", this.root);
    this.setTitle(title);
    this.answer.addEventListener("scroll", () => this.markEdges());
    find(".to-top", this.root).addEventListener("click", () => (this.answer.scrollTop = 0));
    this.run = null;
    this.groups = []; // the answer's group of each pass
    this.bars = []; // the strip's bar of each pass
    this.shown = 0; // the number of visible passes
    this.following = true; // whether the last visible pass stays in view
    this.tauPath = "";
    new ResizeObserver(() => {
      if (this.following) this.reveal(this.shown);
      this.markEdges();
    }).observe(this.answer);
  }

  setTitle(title) {
    if (find(".name", this.root).textContent === title) return;
    set(this.root, { "aria-label": title });
    set(this.answer, { "aria-label": `Answer, ${title}` });
    set(this.strip, { "aria-label": `Forwards, ${title}` });
    say(find(".name", this.root), title);
  }

  /** Draw the new passes of a run. */
  grow(run) {
    this.run = run;
    this.setTitle(run.title);
    const following = this.sees(this.shown);
    for (let index = this.groups.length; index < run.passes.length; index++) {
      this.addTokens(run.passes[index], index);
      this.addBar(run.passes[index], index);
    }
    this.shown = run.passes.length;
    if (following) this.reveal(this.shown);
    this.markEdges();
  }

  addTokens(pass, number) {
    const group = make("span", "pass");
    colour(group, pass);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", `Forward ${pass.pass}`);
    pass.slots.slice(0, pass.accepted).forEach((slot, index) => {
      const token = make("span", "token", slot.text);
      token.setAttribute("role", "option");
      if (!slot.text.trim()) token.setAttribute("aria-label", candidate(pass, index));
      token.dataset.pass = number;
      token.dataset.slot = index;
      token.tabIndex = number + index === 0 ? 0 : -1; // one tab stop per answer; arrows move inside it
      if (isEnd(pass, index)) token.classList.add("end");
      else if (!slot.text) token.classList.add("waiting"); // the incomplete bytes of a character
      if (isCopy(slot)) token.classList.add("copied");
      if (isForced(slot)) token.classList.add("forced");
      if (slot.text.includes("\n")) token.classList.add("newline");
      group.append(token);
    });
    this.groups.push(group);
    this.answer.append(group);
  }

  addBar(pass, number) {
    const bar = draw("rect", {
      x: this.run.startOf(number),
      width: pass.ms * 0.86,
      y: -pass.accepted,
      height: pass.accepted,
      "data-pass": number,
    });
    colour(bar, pass);
    this.bars.push(bar);
    find(".bars", this.root).append(bar);
    if (pass.tau === null || pass.slots.length < 2) return;
    const [start, end] = [this.run.startOf(number), this.run.ends[number]];
    this.tauPath += `${this.tauPath ? "L" : "M"}${start} ${-pass.tau}H${end}`;
    const before = this.run.passes[number - 1]?.tau;
    if (number === 0 || before !== pass.tau) this.addChange(pass, number);
  }

  addChange(pass, number) {
    const change = make("span", "", `τ ${tauText(pass.tau)}`);
    change.dataset.at = this.run.startOf(number);
    find(".changes", this.root).append(change);
  }

  /** Set the scales that all lanes share: `time` in ms, `height` in tokens of a pass. */
  scale({ time, height }) {
    find(".strip svg", this.root).setAttribute("viewBox", `0 ${-height} ${time} ${height}`);
    const path = find(".tau", this.root);
    set(path, { d: this.tauPath, transform: `scale(1 ${height})` });
    // Labels without room after the previous one are hidden; the line shows all changes.
    let free = -Infinity;
    for (const change of find(".changes", this.root).children) {
      const left = (100 * change.dataset.at) / time;
      change.style.left = `${left}%`;
      change.hidden = left < free || left > 86;
      if (!change.hidden) free = left + 15;
    }
    this.timeScale = time;
  }

  /** Show the passes that had ended at a time of the run's clock; null shows the whole answer. */
  showAt(time, playing) {
    const { run } = this;
    const until = run.passesAt(time);
    for (let index = Math.min(until, this.shown); index < Math.max(until, this.shown); index++) {
      this.groups[index].classList.toggle("future", index >= until);
      this.bars[index].classList.toggle("future", index >= until);
    }
    const ended = time === null && Boolean(run.done);
    if (ended && this.following) this.answer.scrollTop = 0;
    // Do not scroll back a visitor who has scrolled away during a replay.
    else if (time !== null && until !== this.shown && (!playing || this.sees(this.shown)))
      this.reveal(until);
    this.following = !ended;
    this.shown = until;
    this.count(until);
    const head = find(".playhead", this.root);
    head.hidden = time === null;
    if (time !== null) head.style.left = `${(100 * Math.min(time, this.timeScale)) / this.timeScale}%`;
    const pass = run.passes[Math.max(0, until - 1)];
    say(find(".setting", this.root), describe(run, pass?.tau ?? run.settings.tau));
    find(".lane-prompt", this.root).hidden = !run.race.letter;
    say(find(".lane-prompt", this.root), run.race.letter ? run.settings.prompt : "");
    this.root.classList.toggle("running", !run.done);
    this.answer.classList.toggle("unfinished", run.isUnfinished && until === run.passes.length);
    const count = run.passes.length;
    set(this.strip, {
      "aria-valuemax": count,
      "aria-valuenow": until,
      "aria-valuetext": `forward ${until} of ${count}`,
    });
  }

  /** Scroll the answer, but not the page, to the last of `count` passes. */
  reveal(count) {
    const box = this.groups[count - 1]?.getBoundingClientRect();
    const frame = this.answer.getBoundingClientRect();
    if (!box) this.answer.scrollTop = 0;
    else if (box.bottom > frame.bottom) this.answer.scrollTop += box.bottom - frame.bottom + 4;
    else if (box.top < frame.top) this.answer.scrollTop += box.top - frame.top - 4;
  }

  /** Whether the end of the last of `count` passes is in view. */
  sees(count) {
    if (!count) return true;
    const { bottom } = this.groups[count - 1].getBoundingClientRect();
    const frame = this.answer.getBoundingClientRect();
    return bottom > frame.top && bottom < frame.bottom + 1;
  }

  /** Show at both edges whether the answer continues there. */
  markEdges() {
    const { scrollTop, scrollHeight, clientHeight } = this.answer;
    const above = scrollTop > 1;
    this.answer.parentElement.classList.toggle("above", above);
    this.answer.parentElement.classList.toggle("below", scrollHeight - scrollTop - clientHeight > 1);
    find(".to-top", this.root).hidden = !above;
  }

  /** Write the counts of the first `passes` passes. */
  count(passes) {
    const { run } = this;
    const tokens = passes ? run.totals[passes - 1] : 0;
    const forwards = passes === run.passes.length ? run.forwards : passes;
    const counts = {
      tokens,
      forwards,
      perForward: fixed(tokens / forwards, 2),
      perSecond: fixed(tokens / (run.ends[passes - 1] / 1000), 0),
    };
    for (const cell of findAll("[data-count]", this.root))
      say(cell, passes ? `${counts[cell.dataset.count]}` : "–");
  }

  token(pass, slot) {
    return this.groups[pass]?.children[slot];
  }

  /** Return the node of the answer's `index`-th token. */
  place(index) {
    const place = this.run.placeOf(index);
    return place && this.token(place.pass, place.slot);
  }

  /** Outline on the strip what each pass would have accepted at another τ; null removes the outlines. */
  drawAt(tau) {
    for (const old of findAll(".ghost-bar", this.root)) old.remove();
    if (tau === null) return;
    find(".bars", this.root).append(
      ...this.run.passes.flatMap((pass, index) => {
        const accepted = acceptedAt(pass, tau);
        if (accepted === pass.accepted) return [];
        const [x, width] = [this.run.startOf(index), pass.ms * 0.86];
        return draw("rect", { class: "ghost-bar", x, width, y: -accepted, height: accepted });
      }),
    );
  }
}
