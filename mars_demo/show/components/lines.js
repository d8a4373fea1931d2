// A reader of component values that are JSON lines, which only grow during a run.

export class Lines {
  constructor() {
    this.read = "";
  }

  /** Return the complete lines since the last call. If the value was replaced, call `begin` first. */
  take(value, begin) {
    const whole = value.slice(0, value.lastIndexOf("\n") + 1);
    if (!whole) return [];
    if (!this.read || !whole.startsWith(this.read)) {
      this.read = "";
      begin();
    }
    const fresh = whole.slice(this.read.length).split("\n").filter(Boolean);
    this.read = whole;
    return fresh;
  }
}
