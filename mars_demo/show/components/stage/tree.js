// The tree of branches, from which earlier runs can be reopened.

import { find, make } from "../dom.js";
import { plural, visible } from "../words.js";

const planted = new Map(); // {run, open} by the id of the run

/** Add the runs on the stage. `open` reopens the current stage with one lane in focus. */
export function plant(runs, open) {
  for (const run of Object.values(runs))
    if (!planted.has(run.settings.run)) planted.set(run.settings.run, { run, open });
  draw(runs);
}

function draw(runs) {
  const here = Object.values(runs).map(({ settings }) => settings.run);
  const roots = [...new Set(here.map(rootOf))].filter(
    (name) => childrenOf(name).length || planted.get(name).run.branch,
  );
  find(".tree").hidden = !roots.length;
  find(".tree ul").replaceChildren(...roots.map((name) => nodeOf(name, here)));
}

function rootOf(name) {
  const of = planted.get(name).run.branch?.of;
  return planted.has(of) && of !== name ? rootOf(of) : name;
}

const childrenOf = (name) =>
  [...planted].filter(([own, { run }]) => run.branch?.of === name && own !== name).map(([own]) => own);

function nodeOf(name, here) {
  const { run, open } = planted.get(name);
  const node = make("li", "");
  const button = make("button", "branch", wordsOf(run));
  button.type = "button";
  if (here.includes(name)) button.setAttribute("aria-current", "true");
  button.addEventListener("click", () => open(run.settings.run));
  node.append(button);
  const below = childrenOf(name);
  if (below.length) {
    const list = make("ul", "");
    list.append(...below.map((child) => nodeOf(child, here)));
    node.append(list);
  }
  return node;
}

function wordsOf({ mode, branch, given, ids, forwards }) {
  const size = `${plural(ids.length, "token")} in ${plural(forwards, "forward")}`;
  if (!branch) return `${mode.title}: ${size}`;
  const instead = given
    .slice(branch.at)
    .map(([, text]) => text)
    .join("");
  return `⑂ token ${branch.at + 1}: “${visible(instead) || "…"}”, ${size}`;
}
