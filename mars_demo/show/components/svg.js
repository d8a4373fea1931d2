// Picture export: self-contained SVG documents, and PNGs rendered from them.

import { element } from "./component.js";
import { draw } from "./dom.js";

// The CSS properties of shapes and texts.
const PROPERTIES = (
  "fill fill-opacity stroke stroke-width stroke-dasharray opacity visibility vector-effect " +
  "paint-order font-family font-size font-weight"
).split(" ");

const isClear = (colour) => /^(transparent|rgba\(.*, 0\))$/.test(colour);

/** Return a copy of a drawing with its computed style inlined. */
export function copyOf(original) {
  const copy = original.cloneNode(true);
  const shapes = [original, ...original.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((shape, index) => {
    const style = getComputedStyle(shapes[index]);
    for (const name of PROPERTIES) shape.style.setProperty(name, style.getPropertyValue(name));
    shape.removeAttribute("class");
  });
  return copy;
}

/** Return the background colour behind a node. */
function backgroundOf(node) {
  const colour = getComputedStyle(node).backgroundColor;
  if (!isClear(colour)) return colour;
  return node.parentElement ? backgroundOf(node.parentElement) : "#ffffff";
}

/** Return an SVG document of `nodes` on the page's background. `box` is [x, y, width, height]. */
export function documentOf(nodes, box, scale = 1) {
  const [x, y, width, height] = box;
  const picture = draw("svg", {
    xmlns: "http://www.w3.org/2000/svg",
    viewBox: box.join(" "),
    width: scale * width,
    height: scale * height,
  });
  picture.append(draw("rect", { x, y, width, height, fill: backgroundOf(element) }), ...nodes);
  return new XMLSerializer().serializeToString(picture);
}

/** Return a PNG of an SVG document at `scale` times its size. */
async function rasterize(picture, scale) {
  const image = new Image();
  const url = URL.createObjectURL(new Blob([picture], { type: "image/svg+xml" }));
  try {
    image.src = url;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
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
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // while the browser may still read it
}

/** Download an SVG document as SVG or PNG. */
export async function downloadPicture(name, kind, picture, scale) {
  const blob =
    kind === "svg" ? new Blob([picture], { type: "image/svg+xml" }) : await rasterize(picture, scale);
  download(`${name}.${kind}`, blob);
}
