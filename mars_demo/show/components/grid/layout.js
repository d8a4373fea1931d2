// The layout of a picture, in its own coordinates.

import { visible } from "../words.js";

export const UNIT = 10; // per cell
const LABELS = 44; // the largest number of rows and columns with names
export const TYPE = 9; // of a name

/**
 * The drawn picture, and the cell under the pointer.
 * @type {{ picture: any, here: { row: number, column: number } | null }}
 */
export const grid = { picture: null, here: null };

export const size = () => [grid.picture.columns.length * UNIT, grid.picture.rows.length * UNIT];
export const shortened = (label) => visible(label).slice(0, 14);
export const hasNames = () => Math.max(grid.picture.rows.length, grid.picture.columns.length) <= LABELS;

/** Return the picture's x, y, width and height. */
export function extent() {
  const { rows, columns } = grid.picture;
  const longest = Math.max(...[...rows, ...columns].map((cell) => shortened(cell.label).length));
  const gutter = hasNames() ? 6 + 0.61 * TYPE * longest : 14;
  const [width, height] = size();
  return [-gutter, -gutter, width + gutter + 2, height + gutter + 2];
}

export const boxOf = ({ rows, columns }) => ({
  x: columns[0] * UNIT,
  y: rows[0] * UNIT,
  width: (columns[1] - columns[0]) * UNIT,
  height: (rows[1] - rows[0]) * UNIT,
});
