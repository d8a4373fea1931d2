// The stage as a picture for slides: SVG shapes and texts at their places on the page.

import { draw, find, findAll, set } from "../dom.js";
import { copyOf, documentOf, isClear, rounded } from "../svg.js";

const [MARGIN, GAP] = [24, 16];

/**
 * Return an SVG document of the stage with texts at their full length, without the parts marked
 * data-export="no". `fit` repositions what scripts have placed, once the texts are unfolded.
 */
export function pictureOf(stage, fit) {
  const scrolled = findAll(".answer, .asked, .turns", stage).map((node) => [node, node.scrollTop]);
  stage.classList.add("unfolded"); // removed before the browser draws the page again
  fit();
  try {
    return paintedOf(stage);
  } finally {
    stage.classList.remove("unfolded");
    fit();
    for (const [node, top] of scrolled) node.scrollTop = top;
  }
}

/** Return its parts one below the other, without gaps for excluded parts. */
function paintedOf(stage) {
  const frame = stage.getBoundingClientRect();
  const parts = ["heading", "lanes", "closeup", "inspector", "difference", "why"]
    .map((name) => find(`.${name}`, stage))
    .filter((part) => part.offsetHeight);
  const height = parts.reduce((sum, part) => sum + part.offsetHeight + GAP, 2 * MARGIN - GAP);
  const painter = new Painter();
  let y = frame.top;
  const groups = parts.map((part) => {
    const group = draw("g", { transform: `translate(0 ${rounded(y - part.getBoundingClientRect().top)})` });
    painter.paint(part, group);
    y += part.offsetHeight + GAP;
    return group;
  });
  const [left, top] = [frame.left - MARGIN, frame.top - MARGIN].map(rounded);
  return documentOf(groups, [left, top, Math.ceil(frame.width + 2 * MARGIN), Math.ceil(height)]);
}

/** A painter of nodes of the page as SVG shapes and texts at their places. */
class Painter {
  constructor() {
    this.brush = document.createElement("canvas").getContext("2d"); // to measure fonts
    this.clips = 0;
  }

  paint(node, into) {
    if (node.nodeType === Node.TEXT_NODE) return this.paintText(node, into);
    if (node.nodeType !== Node.ELEMENT_NODE || node.dataset?.export === "no") return;
    const style = getComputedStyle(node);
    if (style.display === "none" || style.visibility === "hidden" || node.matches("template")) return;
    if (node instanceof SVGSVGElement) return this.paintDrawing(node, into);
    this.paintBoxes(node, style, into);
    if (style.overflowY === "auto" || style.overflowX === "hidden") into = this.clipped(node, into);
    for (const child of node.childNodes) this.paint(child, into);
    if (node.matches(".token.end")) this.paintEnd(node, into);
  }

  /** Paint the word that the style sheet puts at the end of an answer. */
  paintEnd(node, into) {
    const { fontSize, fontFamily } = getComputedStyle(node, "::after");
    const box = node.getBoundingClientRect();
    const [x, y] = [
      rounded(box.left + 0.3 * parseFloat(fontSize)),
      rounded(box.bottom - 0.5 * parseFloat(fontSize)),
    ];
    const fill = getComputedStyle(node).color;
    const label = draw("text", {
      x,
      y,
      fill,
      opacity: 0.7,
      "font-size": fontSize,
      "font-family": fontFamily,
    });
    label.textContent = "end";
    into.append(label);
  }

  clipped(node, into) {
    const box = node.getBoundingClientRect();
    const clip = draw("clipPath", { id: `clip-${++this.clips}` });
    clip.append(draw("rect", { x: box.x, y: box.y, width: box.width, height: box.height }));
    const group = draw("g", { "clip-path": `url(#clip-${this.clips})` });
    into.append(clip, group);
    return group;
  }

  paintBoxes(node, style, into) {
    const boxes = [...node.getClientRects()].filter((box) => box.width && box.height);
    boxes.forEach((box, index) => {
      const shape = shapeOf(box);
      const border = parseFloat(style.borderTopWidth);
      const framed = border && parseFloat(style.borderLeftWidth) && style.borderTopStyle !== "none";
      const filled = !isClear(style.backgroundColor);
      if (filled || framed)
        into.append(
          draw("rect", {
            ...shape,
            rx: parseFloat(style.borderTopLeftRadius) || 0,
            fill: filled ? style.backgroundColor : "none",
            ...(framed && { stroke: style.borderTopColor, "stroke-width": border }),
            ...(framed && style.borderTopStyle === "dashed" && { "stroke-dasharray": "4 3" }),
          }),
        );
      if (border && !framed)
        into.append(draw("rect", { ...shape, height: border, fill: style.borderTopColor }));
      if (node.matches(".pass"))
        this.paintPass(style, shape, index === 0, index === boxes.length - 1, into);
      if (node.matches(".copied")) this.paintDots(style, shape, into);
      if (node.matches(".threshold .bar")) {
        const x = shape.x + shape.width * style.getPropertyValue("--tau");
        into.append(draw("rect", { ...shape, x, width: 2, fill: style.color, opacity: 0.65 }));
      }
    });
  }

  /** Paint the dotted line of n-gram drafts. */
  paintDots({ color, fontSize }, { x, y, width, height }, into) {
    const bottom = rounded(y + height - 0.18 * parseFloat(fontSize));
    into.append(
      draw("line", {
        x1: x,
        x2: x + width,
        y1: bottom,
        y2: bottom,
        stroke: color,
        "stroke-width": 2,
        "stroke-dasharray": "2 2",
      }),
    );
  }

  /** Paint the tint and the bracket of a pass; only its own ends have ticks. */
  paintPass(style, { x, y, width, height }, first, last, into) {
    const opacity = parseFloat(style.getPropertyValue("--tint")) / 100;
    into.append(
      draw("rect", { x, y, width, height, fill: style.getPropertyValue("--hue").trim(), opacity }),
    );
    const fill = style.getPropertyValue("--bracket").trim();
    const [bottom, tick] = [y + height, 8];
    into.append(draw("rect", { x, y: bottom - 2, width, height: 2, fill }));
    if (first) into.append(draw("rect", { x, y: bottom - tick, width: 2, height: tick, fill }));
    if (last)
      into.append(draw("rect", { x: x + width - 2, y: bottom - tick, width: 2, height: tick, fill }));
  }

  paintDrawing(node, into) {
    into.append(set(copyOf(node), shapeOf(node.getBoundingClientRect())));
  }

  /** Paint one <text> per line of the laid-out text. */
  paintText(node, into) {
    if (!node.data) return;
    const style = getComputedStyle(node.parentElement);
    const font = {
      "font-family": style.fontFamily,
      "font-size": style.fontSize,
      "font-weight": style.fontWeight,
    };
    this.brush.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    const ascent = this.brush.measureText("x").fontBoundingBoxAscent;
    const range = document.createRange();
    const lines = [];
    let start = 0;
    for (const character of node.data) {
      range.setStart(node, start);
      start += character.length;
      range.setEnd(node, start);
      const box = range.getClientRects()[0];
      if (!box?.width || character === "\n") continue;
      const line = lines.at(-1);
      if (line && Math.abs(line.y - box.y) < 2) {
        line.text += character;
        line.x = Math.min(line.x, box.x); // right-to-left text
      } else lines.push({ x: box.x, y: box.y, text: character });
    }
    for (const { x, y, text } of lines) {
      if (!text.trim()) continue;
      const line = draw("text", { x: rounded(x), y: rounded(y + ascent), fill: style.color, ...font });
      line.style.whiteSpace = "pre";
      line.textContent = text;
      into.append(line);
    }
  }
}

const shapeOf = ({ x, y, width, height }) => ({
  x: rounded(x),
  y: rounded(y),
  width: rounded(width),
  height: rounded(height),
});
