// Where things go on a chart: round numbers along an axis, and labels that do not cover each other.

const ROUND = [1, 2, 2.5, 5, 10];

/** Round numbers between two, about so many. */
export function ticks(low, high, count) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ROUND.map((times) => times * power).find((size) => size >= rough - 1e-9);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

/** From the smallest to the largest of some numbers with air on both sides, at least `span` apart and within
 * [least, most]. */
export function extent(numbers, span, least, most) {
  let [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const air = Math.max(0.06 * (high - low), (span - (high - low)) / 2);
  [low, high] = [low - air, high + air];
  return [Math.max(least, low), Math.min(most, high)];
}

const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

/** Boxes of so many labels beside their points, in one of four places; null where there is no room.
 * `marks` and `frame` are boxes: what must stay free, and what must not be left. */
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
    const inside = (box) => box.x >= frame.x && box.y >= frame.y && box.x + width <= frame.x + frame.width && box.y + height <= frame.y + frame.height;
    const free = boxes.find((box) => inside(box) && !taken.some((other) => overlap(box, other))) ?? null;
    if (free) taken.push(free);
    return free;
  });
}
