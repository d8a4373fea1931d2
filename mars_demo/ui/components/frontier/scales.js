// Axis ticks and label placement of a chart.

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

const ROUND = [1, 2, 2.5, 5, 10];

/**
 * Return about `count` round numbers from `low` to `high`.
 * @param {number} low
 * @param {number} high
 * @param {number} count
 */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * (ROUND.find((factor) => factor * power >= rough - 1e-9) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from(
    { length: Math.floor(high / step + 1e-9) - first + 1 },
    (_, index) => (first + index) * step,
  );
}

/**
 * Return the ends of an axis: the range of the numbers with margins, at least `span` wide, clipped to
 * [least, most].
 * @param {number[]} numbers
 * @param {number} span
 * @param {number} least
 * @param {number} most
 */
export function extent(numbers, span, least, most) {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const margin = Math.max(0.06 * (high - low), (span - (high - low)) / 2);
  return [Math.max(least, low - margin), Math.min(most, high + margin)];
}

/**
 * @param {Box} a
 * @param {Box} b
 */
const overlap = (a, b) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/**
 * @param {Box} inner
 * @param {Box} outer
 */
const isInside = (inner, outer) =>
  inner.x >= outer.x &&
  inner.y >= outer.y &&
  inner.x + inner.width <= outer.x + outer.width &&
  inner.y + inner.height <= outer.y + outer.height;

/**
 * Return the box of each label beside, above or below its point; null where all of these are taken.
 * @param {Box[]} labels the point and the size of each label
 * @param {Box[]} marks boxes that must stay free
 * @param {Box} frame the box that labels must not leave
 */
export function placeLabels(labels, marks, frame) {
  const taken = [...marks];
  return labels.map(({ x, y, width, height }) => {
    const gap = 0.6 * height;
    const places = [
      [x + gap, y - gap - height / 2],
      [x + gap, y + gap - height / 2],
      [x - gap - width, y - gap - height / 2],
      [x - gap - width, y + gap - height / 2],
      [x - width / 2, y - gap - height],
      [x - width / 2, y + gap],
    ];
    const boxes = places.map(([left, top]) => ({ x: left, y: top, width, height }));
    const isFree = (/** @type {Box} */ box) =>
      isInside(box, frame) && !taken.some((other) => overlap(box, other));
    const free = boxes.find(isFree) ?? null;
    if (free) taken.push(free);
    return free;
  });
}
