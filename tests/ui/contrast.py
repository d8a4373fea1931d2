"""What a page's colours are worth to the eye: contrast as WCAG 2 defines it, read off a real browser."""

# Colours are laid over each other on a canvas, as the browser does it, whatever notation the style has them in.
_TOOLS = """
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const over = (layers) => {
  canvas.globalAlpha = 1;
  canvas.fillStyle = "white";
  canvas.fillRect(0, 0, 1, 1);
  for (const [colour, alpha] of layers) {
    canvas.globalAlpha = alpha;
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
  }
  return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const luminance = (rgb) => {
  const [r, g, b] = rgb.map((part) => part / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
};
const lineage = (node) => (node ? [...lineage(node.parentElement), node] : []);
const ground = (node) => lineage(node).map((one) => [getComputedStyle(one).backgroundColor, 1]);
const alphaOf = (node) => lineage(node).reduce((alpha, one) => alpha * getComputedStyle(one).opacity, 1);
const onPage = (node) => node.checkVisibility({ visibilityProperty: true }) && node.getBoundingClientRect().width > 1;
const named = (node) => `${node.tagName.toLowerCase()}${node.id && "#" + node.id}.${node.getAttribute("class") ?? ""}`;
"""

# The texts that can be seen and read, generated ones too, with a contrast below 4.5; once per look.
TEXTS = f"""() => {{
  {_TOOLS}
  const found = {{}};
  const check = (node, text, style, generated = 1) => {{
    const below = ground(node);
    const value = ratio(over(below), over([...below, [node instanceof SVGElement ? style.fill : style.color, alphaOf(node) * generated]]));
    if (value < 4.5) found[`${{named(node)}} ${{value.toFixed(2)}}`] ??= text.trim().slice(0, 40);
  }};
  for (const node of document.querySelectorAll("body *")) {{
    if (!onPage(node) || node.closest(":disabled, .js-plotly-plot, [data-testid=status-tracker], [aria-hidden=true]")) continue;
    const own = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data).join("");
    const text = own.trim() ? own : node.matches("input:not([type=range], [type=checkbox], [type=radio]), textarea") ? node.value : "";
    if (text.trim()) check(node, text, getComputedStyle(node));
    for (const part of ["::before", "::after"]) {{
      const style = getComputedStyle(node, part);
      if (/^".*\\S.*"$/.test(style.content)) check(node, style.content, style, style.opacity);
    }}
  }}
  return Object.entries(found).map(([look, text]) => `${{look}}: ${{text}}`);
}}"""

# The marks that mean something, with a contrast below 3 to what they are drawn on. What a replay has not
# reached is pale on purpose.
MARKS = f"""() => {{
  {_TOOLS}
  const found = {{}};
  const check = (selector, colour, alpha = () => 1, within = (node) => node) => {{
    for (const node of document.querySelectorAll(selector)) {{
      if (!onPage(node)) continue;
      const style = getComputedStyle(node);
      const below = ground(within(node));
      const value = ratio(over(below), over([...below, [colour(style), alphaOf(node) * alpha(style)]]));
      if (value < 3) found[`${{named(node)}} ${{value.toFixed(2)}}`] = selector;
    }}
  }};
  check(".stage .pass", (style) => style.getPropertyValue("--bracket"));
  check(".stage .strip rect:not(.future)", (style) => style.fill);
  check(".stage .strip .tau", (style) => style.stroke);
  const filled = (selector) => check(selector, (style) => style.backgroundColor, () => 1, (node) => node.parentElement);
  filled(".stage .distance i, .stage .share .bar i, .stage .slot[data-state=accepted] .bar i");
  check(".stage .slot:not([data-state=accepted]) .bar i", (style) => style.borderTopColor);
  check(".stage .heat g:not(.future) .accepted-cells", (style) => style.stroke);
  check(".grid-picture [data-cells]", (style) => style.fill, (style) => style.fillOpacity);
  check(".grid-picture .frame", (style) => style.stroke);
  filled(".schedules [data-state=compute]");
  check(".schedules [data-state=wait]", (style) => style.getPropertyValue("--quiet"));
  check(".schedules [data-state=commit]", (style) => style.getPropertyValue("--commit"));
  check(".curves path", (style) => style.stroke);
  return Object.entries(found).map(([look, selector]) => `${{look}}: ${{selector}}`);
}}"""
