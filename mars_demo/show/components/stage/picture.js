// The stage as a picture for slides: SVG shapes and texts at their places on the page.

import { draw, find, findAll, set } from "../dom.js";
import { copyOf, documentOf, isClear, rounded } from "../svg.js";

const [MARGIN, GAP] = [24, 16];
const PARTS = ["heading", "lanes", "window", "closeup", "inspector", "why"];
/** @type {any} */
const brush = document.createElement("canvas").getContext("2d"); // measures fonts

/**
 * Return an SVG document of the stage with texts at their full length, without the parts marked
 * data-export="no".
 */
export function pictureOf(stage) {
  const scrolled = findAll(".answer, .asked, .turns", stage).map((node) => [node, node.scrollTop]);
  stage.classList.add("unfolded"); // removed before the browser draws the page again
  try {
    return paintedOf(stage);
  } finally {
    stage.classList.remove("unfolded");
    for (const [node, top] of scrolled) node.scrollTop = top;
  }
}

/** Paint the parts of the stage one below the other, without gaps for excluded parts. */
function paintedOf(stage) {
  const { left, top, width } = stage.getBoundingClientRect();
  const groups = [];
  let height = 0;
  for (const part of PARTS.map((name) => find(`.${name}`, stage))) {
    if (!part.offsetHeight) continue;
    const moved = rounded(top + height - part.getBoundingClientRect().top);
    groups.push(draw("g", { transform: `translate(0 ${moved})` }));
    paint(part, groups.at(-1));
    height += part.offsetHeight + GAP;
  }
  const size = [width + 2 * MARGIN, height - GAP + 2 * MARGIN].map(Math.ceil);
  return documentOf(groups, [rounded(left - MARGIN), rounded(top - MARGIN), ...size]);
}

/** Paint a node of the page as SVG shapes and texts at their places. */
function paint(node, into) {
  if (node.nodeType === Node.TEXT_NODE) return paintText(node, into);
  if (node.nodeType !== Node.ELEMENT_NODE || node.dataset.export === "no") return;
  const style = getComputedStyle(node);
  if (style.display === "none" || style.visibility === "hidden") return;
  const frame = shapeOf(node.getBoundingClientRect());
  if (node instanceof SVGSVGElement) return into.append(set(copyOf(node), frame));
  const boxes = [...node.getClientRects()].filter((box) => box.width && box.height).map(shapeOf);
  for (const box of boxes) paintBox(node, style, box, into);
  if (node.matches(".pass")) paintPass(style, boxes, into);
  let inside = into;
  if (style.overflowX === "hidden") {
    inside = draw("svg", { ...frame, viewBox: Object.values(frame).join(" ") }); // clips its content
    into.append(inside);
  }
  for (const child of node.childNodes) paint(child, inside);
  if (node.matches(".token.end")) paintEnd(node, into);
}

function paintBox(node, style, box, into) {
  const paintRect = (attributes) => into.append(draw("rect", { ...box, ...attributes }));
  const { color, backgroundColor, borderTopColor: stroke } = style;
  const border = parseFloat(style.borderTopWidth);
  const framed = border && parseFloat(style.borderLeftWidth);
  const dashes = style.borderTopStyle === "dashed" ? "4 3" : "none";
  const frame = framed && { stroke, "stroke-width": border, "stroke-dasharray": dashes };
  const fill = isClear(backgroundColor) ? "none" : backgroundColor;
  if (framed || fill !== "none") paintRect({ rx: parseFloat(style.borderTopLeftRadius), fill, ...frame });
  if (border && !framed) paintRect({ height: border, fill: stroke });
  if (node.matches(".copied")) {
    const d = `M${box.x} ${rounded(box.y + box.height - 0.18 * parseFloat(style.fontSize))}h${box.width}`;
    into.append(draw("path", { d, stroke: color, "stroke-width": 2, "stroke-dasharray": "2 2" }));
  }
  if (node.matches(".threshold .bar")) {
    const x = box.x + box.width * style.getPropertyValue("--tau");
    paintRect({ x, width: 2, fill: color, opacity: 0.65 });
  }
}

/** Paint the tint and the bracket of a pass, a box per line; only its own ends have ticks. */
function paintPass(style, boxes, into) {
  const [hue, tint, fill] = ["--hue", "--tint", "--bracket"].map((name) => style.getPropertyValue(name));
  boxes.forEach((box, index) => {
    const paintRect = (attributes) => into.append(draw("rect", { ...box, ...attributes }));
    const bottom = box.y + box.height;
    const tick = { y: bottom - 8, width: 2, height: 8, fill };
    paintRect({ fill: hue, opacity: parseFloat(tint) / 100 });
    paintRect({ y: bottom - 2, height: 2, fill });
    if (index === 0) paintRect(tick);
    if (index === boxes.length - 1) paintRect({ ...tick, x: box.x + box.width - 2 });
  });
}

/** Paint the word that the style sheet puts at the end of an answer. */
function paintEnd(node, into) {
  const style = getComputedStyle(node, "::after");
  const { left, bottom } = node.getBoundingClientRect();
  const size = parseFloat(style.fontSize);
  write("end", left + 0.3 * size, bottom - 0.5 * size, style, into);
}

/** Write each line of a laid-out text. */
function paintText(node, into) {
  const style = getComputedStyle(node.parentElement);
  brush.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const ascent = brush.measureText("x").fontBoundingBoxAscent;
  const range = document.createRange();
  const lines = [];
  let end = 0;
  for (const character of node.data) {
    range.setStart(node, end);
    end += character.length;
    range.setEnd(node, end);
    const box = range.getClientRects()[0];
    if (!box?.width || character === "\n") continue;
    const isNew = !lines.length || Math.abs(lines.at(-1).y - box.y) >= 2;
    if (isNew) lines.push({ x: box.x, y: box.y, text: "" });
    const line = lines.at(-1);
    line.text += character;
    line.x = Math.min(line.x, box.x); // right-to-left text
  }
  for (const { x, y, text } of lines) if (text.trim()) write(text, x, y + ascent, style, into);
}

function write(text, x, y, { color, fontFamily, fontSize, fontWeight }, into) {
  const place = { x: rounded(x), y: rounded(y), fill: color };
  const font = { "font-family": fontFamily, "font-size": fontSize, "font-weight": fontWeight };
  const line = draw("text", { ...place, ...font });
  line.style.whiteSpace = "pre"; // the live page forbids style attributes in markup
  line.textContent = text;
  into.append(line);
}

const shapeOf = (box) =>
  Object.fromEntries(["x", "y", "width", "height"].map((name) => [name, rounded(box[name])]));
