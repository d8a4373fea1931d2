// What a visitor changes during a race.

const PERIOD = 125; // ms from forward to forward of a race that is watched: eight per second

/** The settings of a race that change while it runs. τ acts at the next forward, the others at once. */
export class Knobs {
  stopped = false;
  #wake = () => {};

  /** @param {boolean} watched whether the forwards come slowly enough to be read */
  constructor(/** @type {number} */ tau, watched = false) {
    this.tau = tau;
    this.watched = watched;
  }

  watch(/** @type {boolean} */ watched) {
    this.watched = watched;
    this.#wake();
  }

  stop() {
    this.stopped = true;
    this.#wake();
  }

  /**
   * Let the messages that have arrived be handled, in a later task of this thread; if the race is watched,
   * wait for the rest of the period after a forward of `ms`. Return whether there was a rest, as in
   * ui/knobs.py.
   */
  async pause(/** @type {number} */ ms) {
    await nextTask();
    const rest = PERIOD - ms;
    if (this.stopped || !this.watched || rest <= 0) return false;
    await /** @type {Promise<void>} */ (
      new Promise((resolve) => {
        this.#wake = resolve;
        setTimeout(resolve, rest);
      })
    );
    return true;
  }
}

/** Wait for a later task; a timer would wait for milliseconds. */
function nextTask() {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(null);
  });
}
