// Results, drawn while they are measured or from recordings. Points are chosen in the chart or in the
// table.

import { element, props, trigger, watch } from "../component.js";
import { find, findAll, make, say } from "../dom.js";
import { Lines } from "../lines.js";
import { download } from "../svg.js";
import { plural } from "../words.js";
import { drawAnswers, hideAnswers, listMore, listOthers } from "./answers.js";
import { drawChart, drawPaperWords } from "./chart.js";
import { drawNumbers } from "./numbers.js";
import { begin, nameOf, pointInWords, results, take } from "./results.js";

const HINT = "Choose a point to set the Race tab to its settings. Choose it again to see its answers.";

const lines = new Lines();
let shown = null; // the name of a result
let chosen = null; // one of its points
let behind = false; // whether its answers are shown
let nodes = []; // the points of the chart with their nodes
let growing = null; // the result of the value

const current = () => results.get(shown);
const across = () => find(".across:checked").value;

function show() {
  const result = current();
  const points = result?.points ?? [];
  say(find(".about"), result?.heading.about ?? "");
  const paper = find(".paper").checked;
  nodes = drawChart(points, across(), chosen, paper);
  drawPaperWords(paper, across());
  drawAup(result?.end?.aup ?? {});
  point(chosen);
  for (const { node, point: its } of drawNumbers(points, chosen))
    node.addEventListener("click", () => choose(its));
  for (const button of findAll(".files button")) button.disabled = !result?.end;
  drawChosen();
  drawKept();
  const entry = nodes.find(({ point: its }) => its === chosen) ?? nodes[0];
  entry?.node.setAttribute("tabindex", 0);
}

/** Draw the area under the line of each criterion. */
function drawAup(areas) {
  const scores = Object.entries(areas).map(([criterion, area]) => `${criterion} ${area.toFixed(0)}`);
  find(".aup").hidden = !scores.length;
  say(
    find(".aup"),
    `Accuracy under parallelism (AUP; AR alone has its accuracy in percent): ${scores.join(", ")}.`,
  );
}

/** Describe a point below the chart, or show the hint. */
function point(pointed) {
  say(find(".pointed"), pointed ? pointInWords(pointed, across()) : current()?.points.length ? HINT : "");
}

function drawChosen() {
  find(".chosen").hidden = !chosen;
  if (!chosen) return hideAnswers();
  const { model } = current().heading;
  const where =
    chosen.mode === "ar" ? "AR is a side of every race" : `The Race tab is set to ${nameOf(chosen)}`;
  say(find(".set"), `${where}, with ${model}.`);
  const list = find('[data-do="behind"]');
  say(list, `${behind ? "Hide" : "Show"} the ${plural(chosen.answers.length, "answer")} of this point`);
  list.setAttribute("aria-expanded", behind);
  list.hidden = !chosen.answers.length;
  if (behind) drawAnswers(chosen, model);
  else hideAnswers();
}

/** List the results of this visit. */
function drawKept() {
  find(".kept").hidden = results.size < 2;
  const list = find(".kept select");
  list.replaceChildren(
    ...[...results.keys()].map((name) => {
      const option = make("option", "", name);
      option.value = name;
      return option;
    }),
  );
  list.value = shown ?? "";
}

// ------------------------------------------------------------------------------ what visitors do

/** Choose a point, whose settings the Race tab takes; chosen again, toggle its answers. */
function choose(its) {
  const focused = document.activeElement;
  const place = [nodes.findIndex(({ node }) => node === focused), findAll(".take").indexOf(focused)];
  if (its === chosen) behind = !behind;
  else {
    [chosen, behind] = [its, false];
    const { mode, tau, criterion } = its;
    trigger("chosen", { model: current().heading.model, mode, tau, criterion });
  }
  show();
  (nodes[place[0]]?.node ?? findAll(".take")[place[1]])?.focus();
}

function select(name) {
  [shown, chosen, behind] = [name, null, false];
  show();
}

const save = (kind) => {
  const { heading, end } = current();
  download(
    `frontier-${heading.model}.${kind}`.replaceAll(/[^\w.-]/g, "-"),
    new Blob([end[kind]], { type: kind === "csv" ? "text/csv" : "application/json" }),
  );
};

const actions = {
  json: () => save("json"),
  csv: () => save("csv"),
  race: () => trigger("raced", {}),
  behind: () => choose(chosen),
  more: () => listMore(current().heading.model),
};

/** Return the next point of the line, or the nearest point of another line. */
function neighbour(at, key) {
  const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[key];
  if (key === "ArrowRight" || key === "ArrowLeft") return nodes[at + by];
  const lineOf = ({ node }) => node.parentNode;
  const others = nodes.filter((one) => lineOf(one) !== lineOf(nodes[at]));
  const ordered =
    by > 0
      ? others.filter((one) => nodes.indexOf(one) > at)
      : others.filter((one) => nodes.indexOf(one) < at).reverse();
  return ordered[0];
}

function onKey(event) {
  const at = nodes.findIndex(({ node }) => node === event.target);
  if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Enter" || event.key === " ") choose(nodes[at].point);
  else if (event.key.startsWith("Arrow")) walk(at, event.key);
  else return;
  event.preventDefault();
}

function walk(at, key) {
  const next = neighbour(at, key);
  if (!next) return;
  nodes[at].node.setAttribute("tabindex", -1);
  next.node.setAttribute("tabindex", 0);
  next.node.focus();
}

const pointOf = (target) => nodes.find(({ node }) => node === target.closest?.(".point"))?.point ?? null;

function listen() {
  element.addEventListener("click", ({ target }) => {
    const action = target.closest("[data-do]")?.dataset.do;
    if (action) actions[action]();
    else if (pointOf(target)) choose(pointOf(target));
  });
  for (const kind of ["pointerover", "focusin"])
    find("svg").addEventListener(kind, ({ target }) => point(pointOf(target) ?? chosen));
  for (const kind of ["pointerleave", "focusout"]) find("svg").addEventListener(kind, () => point(chosen));
  find("svg").addEventListener("keydown", onKey);
  for (const control of findAll(".across, .paper")) control.addEventListener("change", show);
  find(".kept select").addEventListener("change", ({ target }) => select(target.value));
  find(".which select").addEventListener("change", () => listOthers(current().heading.model));
  let width = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (Math.abs(contentRect.width - width) < 1) return;
    width = contentRect.width;
    if (width) show();
  }).observe(find("figure"));
}

// ------------------------------------------------------------------------------------- the value

function update() {
  let fresh = false;
  for (const line of lines.take(props.value || "", () => (fresh = true))) {
    const record = JSON.parse(line);
    if (fresh) {
      growing = begin(record);
      [shown, chosen, behind, fresh] = [record.results, null, false, false];
    } else take(growing, record);
  }
  show();
}

find(".numbers-of").open = !document.documentElement.matches(".talk");
listen();
watch("value", update);
update();
