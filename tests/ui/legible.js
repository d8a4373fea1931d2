// How well a page can be read, as the browser has drawn it: texts with a contrast below 4.5 and marks below 3,
// as WCAG 2 defines it, and the size of the smallest text on the screen. What a replay has not reached is pale on
// purpose.
// Colours are read once they have stopped fading: a button that was just enabled is pale for a moment.
async () => {
  const fading = document.getAnimations().filter((one) => one.effect.getComputedTiming().endTime < Infinity);
  await Promise.all(fading.map((one) => one.finished.catch(() => {})));  // one that is removed never finishes
  // Colours are laid over each other on a canvas, as the browser does it, whatever notation they come in.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const over = (ground, colour, alpha) => {
    for (const [layer, opacity] of [[ground, 1], [colour, alpha]]) {
      canvas.globalAlpha = opacity;
      canvas.fillStyle = layer;
      canvas.fillRect(0, 0, 1, 1);
    }
    return `rgb(${canvas.getImageData(0, 0, 1, 1).data.slice(0, 3).join(" ")})`;
  };
  const luminance = (rgb) => {
    const linear = (part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.match(/\d+/g).map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  // Thousands of nodes share their ancestors, and hundreds their colours: each is asked once.
  const once = (compute) => {
    const known = new Map();
    return (key) => known.get(key) ?? known.set(key, compute(key)).get(key);
  };
  const groundOf = once((node) =>
    node ? over(groundOf(node.parentElement), getComputedStyle(node).backgroundColor, 1) : "white");
  const alphaOf = once((node) => (node ? alphaOf(node.parentElement) * getComputedStyle(node).opacity : 1));
  const contrasts = once((layers) => {
    const [ground, colour, alpha] = layers.split("|");
    return ratio(ground, over(ground, colour, alpha));
  });
  const contrast = (node, colour, alpha) => contrasts([groundOf(node), colour, alpha].join("|"));
  const onPage = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 1;
  const named = (node) => `${node.tagName.toLowerCase()}#${node.id}.${node.getAttribute("class")}`;

  const texts = new Set();
  let smallest = [Infinity, ""];
  const scaleOf = (node) => {
    const { a, b, c, d } = node.getScreenCTM?.() ?? { a: 1, b: 0, c: 0, d: 1 }; // of a drawing
    return Math.sqrt(a * d - b * c);
  };
  const readText = (node, text, style, alpha = 1) => {
    const size = Math.round(100 * scaleOf(node) * parseFloat(style.fontSize)) / 100;
    if (size < smallest[0]) smallest = [size, `${named(node)}: ${text.slice(0, 30)}`];
    if (node.closest(":disabled, .js-plotly-plot")) return;
    const drawn = node instanceof SVGElement;
    const value = contrast(node, drawn ? style.fill : style.color, alphaOf(node) * alpha);
    if (value < 4.5) texts.add(`${named(node)} ${value.toFixed(2)}: ${text.slice(0, 30)}`);
  };
  const FIELDS = "textarea, input:not([type=range], [type=checkbox], [type=radio])";
  for (const node of document.querySelectorAll("body *")) {
    if (!onPage(node) || node.closest("[data-testid=status-tracker]")) continue;
    const own = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE);
    const text = own.map((child) => child.data.trim()).join("") || (node.matches(FIELDS) ? node.value : "");
    if (text) readText(node, text, getComputedStyle(node));
    for (const part of ["::before", "::after"]) {
      const style = getComputedStyle(node, part);
      if (/^".*\S.*"$/.test(style.content)) readText(node, style.content, style, style.opacity);
    }
  }

  const marks = new Set();
  const readMark = (selector, colour, { alpha = () => 1, ground = (node) => node } = {}) => {
    for (const node of [...document.querySelectorAll(selector)].filter(onPage)) {
      const style = getComputedStyle(node);
      const value = contrast(ground(node), colour(style), alphaOf(node) * alpha(style));
      if (value < 3) marks.add(`${named(node)} ${value.toFixed(2)}: ${selector}`);
    }
  };
  const filled = (selector) => readMark(selector, (style) => style.backgroundColor, { ground: (node) => node.parentElement });
  readMark(".stage .pass", (style) => style.getPropertyValue("--bracket"));
  readMark(".stage .strip rect:not(.future)", (style) => style.fill);
  readMark(".stage .strip .tau", (style) => style.stroke);
  filled(".stage .row .bar i, .stage .slot[data-state=accepted] .bar i");
  readMark(".stage .slot:not([data-state=accepted]) .bar i", (style) => style.borderTopColor);
  readMark(".stage .heat g:not(.future) .accepted-cells", (style) => style.stroke);
  readMark(".grid-picture [data-cells]", (style) => style.fill, { alpha: (style) => style.fillOpacity });
  readMark(".grid-picture .frame", (style) => style.stroke);
  filled(".schedules [data-state=compute]");
  readMark(".schedules [data-state=wait]", (style) => style.getPropertyValue("--quiet"));
  readMark(".schedules [data-state=commit]", (style) => style.getPropertyValue("--hue-1"));
  readMark(".curves path", (style) => style.stroke);
  readMark(".worked .slot", (style) => style.borderTopColor);
  readMark(".scatterlayer .js-line", (style) => style.stroke);
  readMark(".scatterlayer .point", (style) => style.fill);
  return { texts: [...texts], marks: [...marks], smallest };
}
