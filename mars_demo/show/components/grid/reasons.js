// Cells in words: which position sees which, and why.

import { plural, visible } from "../words.js";

const names = {
  clean: (cell) => `clean “${visible(cell.label)}” at ${cell.position}`,
  noisy: (cell) => `noisy position ${cell.position} (block ${cell.block})`,
  cached: (cell) => `cached “${visible(cell.label)}” at ${cell.position}`,
  new: (cell) => `“${visible(cell.label)}” at ${cell.position}`,
  draft: (cell) => `draft “${visible(cell.label)}” at ${cell.position}`,
  mask: (cell) => `the mask at ${cell.position}`,
  group: (cell) => `the mask at ${cell.position} of group ${cell.block}`,
};
const words = (cell) => names[cell.stream](cell);

/** Return why a row sees a column, or why not. */
function because(row, column, isVisible) {
  if (row === column) return "every position sees itself";
  const later = column.position > row.position;
  if (row.stream === "clean") {
    if (column.stream === "noisy") return "the clean stream never sees the noisy one";
    if (isVisible)
      return later
        ? "both are in the same block, which sees itself in both directions"
        : "it comes earlier";
    return "it comes later";
  }
  if (row.stream === "noisy") {
    if (column.stream === "clean")
      return isVisible
        ? `it comes before block ${row.block}`
        : `it is in block ${row.block} or after it: those tokens must be predicted`;
    if (row.block !== column.block)
      return `it is in block ${column.block}, and blocks do not see each other`;
    return isVisible
      ? later
        ? "a block sees itself in both directions"
        : "it is in the same block and not later"
      : "it comes later in the block";
  }
  if (column.stream === "cached") return "everything in the cache was accepted";
  if (row.stream === "group") {
    if (column.stream === "group" && column.block !== row.block)
      return "groups do not see each other: each continues after a different number of drafts";
    if (column.stream === "draft")
      return `group ${row.block} assumes that exactly ${plural(row.block, "draft")} will be accepted`;
  }
  return isVisible
    ? "it comes earlier"
    : column.stream === "group"
      ? "masks come after it"
      : "it comes later";
}

/** Describe a cell. */
export function describe(picture, { row, column }) {
  const [query, key] = [picture.rows[row], picture.columns[column]];
  const isVisible = picture.visible[row][column] === "1";
  const subject = words(query);
  const sees = `${isVisible ? "sees" : "does not see"} ${query === key ? "itself" : words(key)}`;
  const reason = because(query, key, isVisible);
  let sentence = `${subject[0].toUpperCase()}${subject.slice(1)} ${sees}: ${reason}.`;
  if (picture.weights && isVisible) sentence += ` Attention ${picture.weights[row][column].toFixed(3)}.`;
  if (query.target !== null && query.target !== undefined)
    sentence +=
      ` It learns to predict “${visible(query.target)}”, ` +
      `${plural(query.offset, "token")} after the last real one it sees.`;
  return sentence;
}
