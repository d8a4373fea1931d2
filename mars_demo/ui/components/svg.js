// Pictures to take home: SVG documents that need no style sheet, and PNGs made of them.

import { element } from "./component.js";
import { draw } from "./dom.js";

// Whatever a style sheet may say about a shape or a text.
const LOOKS = (
  "fill fill-opacity stroke stroke-width stroke-dasharray opacity visibility vector-effect " +
  "paint-order font-family font-size font-weight"
).split(" ");

export const rounded = (number) => Math.round(number * 100) / 100;
export const isClear = (colour) => /^(transparent|rgba\(.*, 0\))$/.test(colour);

/** A copy of a drawing on the page with its looks written into it. */
export function copyOf(original) {
  const copy = original.cloneNode(true);
  const shapes = [original, ...original.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((shape, index) => {
    const style = getComputedStyle(shapes[index]);
    for (const name of LOOKS) shape.style.setProperty(name, style.getPropertyValue(name));
    shape.removeAttribute("class");
  });
  return copy;
}

/** What is seen behind a node. */
function groundOf(node) {
  const colour = getComputedStyle(node).backgroundColor;
  if (!isClear(colour)) return colour;
  return node.parentElement ? groundOf(node.parentElement) : "#ffffff";
}

/** The text of an SVG document of these nodes, on the page's own ground. `box` is [x, y, width, height]. */
export function documentOf(nodes, box, scale = 1) {
  const [x, y, width, height] = box;
  const picture = draw("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: box.join(" "),
    width: scale * width,
    height: scale * height,
  });
  picture.append(draw("rect", { x, y, width, height, fill: groundOf(element) }), ...nodes);
  return new XMLSerializer().serializeToString(picture);
}

/** A PNG of an SVG document, `scale` times as large. */
async function rasterized(picture, scale) {
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

export function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // the browser may still be reading it
}

/** Download an SVG document as it is, or as a PNG. */
export async function downloadPicture(name, kind, picture, scale) {
  const blob = kind === "svg" ? new Blob([picture], { type: "image/svg+xml" }) : await rasterized(picture, scale);
  download(`${name}.${kind}`, blob);
}
