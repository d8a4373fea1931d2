// Numbers and texts as the page writes them.

const BEYOND = 25; // more decimals than tell a half from its neighbours

/**
 * Return a number with so many decimals; a half goes to the even digit, as in Python, not up as in `toFixed`.
 * @param {number} value
 * @param {number} digits
 */
export function fixed(value, digits) {
  const exact = value.toFixed(digits + BEYOND);
  const [kept, rest] = [exact.slice(0, -BEYOND), exact.slice(-BEYOND)];
  const isDown = /^50*$/.test(rest) && /[02468]\.?$/.test(kept);
  return isDown ? kept.replace(/\.$/, "") : value.toFixed(digits);
}

/** Return a probability in percent, rounded down: 94.996% does not reach a τ of 95%. */
export const percent = (/** @type {number} */ p) =>
  p > 0 && p < 1e-4 ? "<0.01%" : `${(Math.floor(p * 1e4) / 100).toFixed(2)}%`;

/**
 * Return a count with its noun, such as "1 round" or "2 rounds".
 * @param {number} n
 * @param {string} noun
 */
export const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

export const TAU_STEP = 0.01; // of every τ slider; those of Gradio have `TAU_STEP` of controls.py

/** Return a τ or a score as the page writes it. */
export const tauText = (/** @type {number} */ tau) => fixed(tau, 2);

/** @param {number} ms */
export const seconds = (ms) => `${fixed(ms / 1000, ms < 9995 ? 2 : 1)} s`;

/** @param {number} bytes */
export const megabytes = (bytes) => `${Number(fixed(bytes / 1e6, 0)).toLocaleString("en")} MB`;

/**
 * Return a text with visible white space.
 * @param {string} text
 */
export const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
