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
  const [from, to] = [row.stream, column.stream];
  const later = column.position > row.position;
  const otherBlock = row.block !== column.block;
  if (row === column) return "every position sees itself";
  if (from === "clean" && to === "noisy") return "the clean stream never sees the noisy one";
  if (from === "clean" && isVisible && later)
    return "both are in the same block, which sees itself in both directions";
  if (from === "noisy" && to === "clean")
    return isVisible
      ? `it comes before block ${row.block}`
      : `it is in block ${row.block} or after it: those tokens must be predicted`;
  if (from === "noisy" && otherBlock)
    return `it is in block ${column.block}, and blocks do not see each other`;
  if (from === "noisy" && !isVisible) return "it comes later in the block";
  if (from === "noisy")
    return later ? "a block sees itself in both directions" : "it is in the same block and not later";
  if (to === "cached") return "everything in the cache was accepted";
  if (from === "group" && to === "group" && otherBlock)
    return "groups do not see each other: each continues after a different number of drafts";
  if (from === "group" && to === "draft")
    return `group ${row.block} assumes that exactly ${plural(row.block, "draft")} will be accepted`;
  if (isVisible) return "it comes earlier";
  return from !== "clean" && to === "group" ? "masks come after it" : "it comes later";
}

/** Describe a cell. */
export function describe(picture, { row, column }) {
  const [query, key] = [picture.rows[row], picture.columns[column]];
  const isVisible = picture.visible[row][column] === "1";
  const subject = words(query);
  const sees = `${isVisible ? "sees" : "does not see"} ${query === key ? "itself" : words(key)}`;
  const reason = because(query, key, isVisible);
  let sentence = `${subject[0].toUpperCase()}${subject.slice(1)} ${sees}: ${reason}.`;
  if (query.target !== null && query.target !== undefined)
    sentence +=
      ` It learns to predict “${visible(query.target)}”, ` +
      `${plural(query.offset, "token")} after the last real one it sees.`;
  return sentence;
}
