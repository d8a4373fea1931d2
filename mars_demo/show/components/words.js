// Numbers and texts as the page writes them.

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
export const tauText = (/** @type {number} */ tau) => tau.toFixed(2);

/** @param {number} ms */
export const seconds = (ms) => `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;

/** @param {number} bytes */
export const megabytes = (bytes) => `${Math.round(bytes / 1e6).toLocaleString("en")} MB`;

/**
 * Return a text with visible white space.
 * @param {string} text
 */
export const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
