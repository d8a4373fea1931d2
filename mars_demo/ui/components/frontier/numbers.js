// All points in a table, for the keyboard, screen readers and copying.

import { find, make } from "../dom.js";
import { figure, series, titleOf } from "./results.js";

/** Draw rows in the order of the lines; the button of a row acts like its point. */
export function drawNumbers(points, chosen) {
  const rows = series(points).flatMap(([, line]) => line.map((point) => rowOf(point, point === chosen)));
  find(".numbers-of tbody").replaceChildren(...rows.map(({ row }) => row));
  find(".numbers-of").hidden = !rows.length;
  return rows.map(({ button, point }) => ({ node: button, point }));
}

function rowOf(point, chosen) {
  const button = make("button", "take", titleOf(point));
  button.type = "button";
  button.setAttribute("aria-pressed", chosen);
  const head = make("th", "");
  head.scope = "row";
  head.append(button);
  const tau = point.tau === null ? "–" : `${point.tau}`;
  const figures = ["accuracy", "tokens_per_forward", "answers_per_second"].map((axis) =>
    figure(point, axis),
  );
  const faster = point.faster === null ? "–" : `${point.faster.toFixed(2)}×`;
  const cells = [tau, ...figures, faster, point.mode === "ar" ? "–" : `${point.left}`, `${point.n}`];
  const row = make("tr", chosen ? "chosen-row" : "");
  row.append(head, ...cells.map((text) => make("td", "", text)));
  return { row, button, point };
}
