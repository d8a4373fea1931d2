// A cell in words: who sees whom, and why.

import { plural, visible } from "../words.js";

const standing = {
  clean: (cell) => `clean “${visible(cell.label)}” at ${cell.position}`,
  noisy: (cell) => `noisy position ${cell.position} (block ${cell.block})`,
  cached: (cell) => `cached “${visible(cell.label)}” at ${cell.position}`,
  new: (cell) => `“${visible(cell.label)}” at ${cell.position}`,
  draft: (cell) => `draft “${visible(cell.label)}” at ${cell.position}`,
  mask: (cell) => `the mask at ${cell.position}`,
  group: (cell) => `the mask at ${cell.position} of group ${cell.block}`,
};
export const words = (cell) => standing[cell.stream](cell);

/** Why a row sees a column, or why not. */
function because(row, column, seen) {
  if (row === column) return "every position sees itself";
  const later = column.position > row.position;
  if (row.stream === "clean") {
    if (column.stream === "noisy") return "the clean stream never sees the noisy one";
    if (seen) return later ? "both are in the same block, which sees itself in both directions" : "it comes earlier";
    return "it comes later";
  }
  if (row.stream === "noisy") {
    if (column.stream === "clean") return seen ? `it comes before block ${row.block}` : `it is in block ${row.block} or after it: those tokens are to be predicted`;
    if (row.block !== column.block) return `it is in block ${column.block}, and blocks do not see each other`;
    return seen ? (later ? "a block sees itself in both directions" : "it is in the same block and not later") : "it comes later in the block";
  }
  if (column.stream === "cached") return "everything in the cache was accepted";
  if (row.stream === "group") {
    if (column.stream === "group" && column.block !== row.block) return "groups do not see each other: each continues after a different number of drafts";
    if (column.stream === "draft") return seen ? `group ${row.block} supposes that the first ${plural(row.block, "draft")} hold` : `group ${row.block} supposes that only ${plural(row.block, "draft")} hold`;
  }
  return seen ? "it comes earlier" : column.stream === "group" ? "masks come after it" : "it comes later";
}

/** A cell in words. */
export function tell(picture, { row, column }) {
  const [query, key] = [picture.rows[row], picture.columns[column]];
  const seen = picture.visible[row][column] === "1";
  const what = words(query);
  let sentence = `${what[0].toUpperCase()}${what.slice(1)} ${seen ? "sees" : "does not see"} ${query === key ? "itself" : words(key)}: ${because(query, key, seen)}.`;
  if (picture.weights && seen) sentence += ` Attention ${picture.weights[row][column].toFixed(3)}.`;
  if (query.target !== null && query.target !== undefined)
    sentence += ` It learns to predict “${visible(query.target)}”, ${plural(query.offset, "token")} after the last real one it sees.`;
  return sentence;
}
