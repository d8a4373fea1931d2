// The replay of a figure, step by step: its button `.play` and its slider `.playhead`.

import { drawPlay, find } from "./dom.js";

const LONGEST = 12_000; // ms of a replay
const PACE = 180; // ms per step of a short one

export class Playback {
  /** @type {number | null} */
  #at = null; // the shown step; null follows the last one
  /** @type {number | undefined} */
  #timer;

  /**
   * @param {() => number} count return the number of steps
   * @param {() => void} show draw the shown step
   */
  constructor(count, show) {
    this.count = count;
    this.show = show;
    find(".play").addEventListener("click", () => this.#play());
    find(".playhead").addEventListener("input", ({ target }) => {
      this.#pause();
      this.#goTo(Number(target.value));
    });
  }

  get shown() {
    return this.#at ?? this.count();
  }

  /** Follow the last step again. */
  follow() {
    this.#pause();
    this.#at = null;
  }

  /** Draw the controls; `most` is the number of steps that there will be. */
  draw(most = this.count()) {
    Object.assign(find(".playhead"), { max: most, value: this.shown, disabled: !this.count() });
    find(".play").disabled = !this.count();
    drawPlay(this.#timer !== undefined);
  }

  #goTo(step) {
    this.#at = step >= this.count() ? null : step;
    this.show();
  }

  #pause() {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #play() {
    if (this.#timer !== undefined) this.#pause();
    else {
      this.#at ??= 0;
      this.#timer = setInterval(
        () => {
          if (this.shown + 1 >= this.count()) this.#pause();
          this.#goTo(this.shown + 1);
        },
        Math.min(PACE, LONGEST / this.count()),
      );
    }
    this.show();
  }
}
