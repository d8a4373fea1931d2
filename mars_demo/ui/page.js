// Helpers that every component's scripts begin with. They run once per component, with Gradio's `element`,
// `props`, `watch` and `trigger`. Text from people or models goes through `textContent` alone.

const find = (selector, root = element) => root.querySelector(selector);
const findAll = (selector, root = element) => [...root.querySelectorAll(selector)];
const make = (tag, className, text = "") => {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
};
const draw = (tag, attributes = {}) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
};
/** Write only what changed: a live region speaks at every write, and a write costs layout. */
const say = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

const percent = (p) => `${(Math.floor(p * 1e4) / 100).toFixed(2)}%`; // never up: 94.996% is not yet 95%
const rounded = (number) => Math.round(number * 100) / 100;
const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
const seconds = (ms) => `${(ms / 1000).toFixed(ms < 9995 ? 2 : 1)} s`;
const visible = (text) => text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥");

/** What the address remembers: settings, the recorded run and the selected pass. Null forgets a key. */
const address = {
  get: (key) => new URLSearchParams(location.search).get(key),
  set(entries) {
    const query = new URLSearchParams(location.search);
    for (const [key, value] of Object.entries(entries))
      if (value === null) query.delete(key);
      else query.set(key, value);
    const text = query.toString();
    if (text !== location.search.slice(1)) history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
  },
};

/** A PNG of an SVG document. */
async function rasterize(picture, scale = 2) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser may still be reading it
}
