// Numbers and texts as they are written on the page.

export const percent = (p) => `${(Math.floor(p * 1e4) / 100).toFixed(2)}%`; // never up: 94.996% is not yet 95%
export const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
export const seconds = (ms) => `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
export const megabytes = (bytes) => `${Math.round(bytes / 1e6).toLocaleString("en")} MB`;

/** White space made visible. */
export const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");
