// Values that are JSON lines: while something runs they only grow.

export class Lines {
  constructor() {
    this.read = "";
  }

  /** The whole lines that have come since. Where the value is another one, `begin` is called first. */
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
