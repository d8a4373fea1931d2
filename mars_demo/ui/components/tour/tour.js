// The tour: a box at the foot of the page with the steps; the page stays usable.

import { constants, element } from "../component.js";
import { find, make, say } from "../dom.js";
import { pointAt } from "./pointing.js";
import { ask, followRaces } from "./prediction.js";

const steps = constants;
const box = find(".box");
let at = null; // the number of the step

const tabOf = (title) =>
  [...document.querySelectorAll("[role=tab]")].find((tab) => tab.textContent.trim() === title);

function go(number) {
  const step = steps[number];
  at = number;
  say(find(".count"), `Step ${number + 1} of ${steps.length}`);
  say(find("#tour-title"), step.title);
  say(find("#tour-text"), step.text);
  find(".back").hidden = number === 0;
  say(find(".next"), number === steps.length - 1 ? "Done" : "Next");
  find(".tabs-to").replaceChildren(...(step.tabs ?? []).map(leadTo));
  ask(step);
  box.scrollTop = 0;
  pointAt(step.at);
}

function leadTo({ tab, text }) {
  const button = make("button", "", tab);
  button.type = "button";
  button.append(make("span", "", text));
  button.addEventListener("click", () => {
    close();
    tabOf(tab)?.click();
    tabOf(tab)?.focus();
  });
  return button;
}

function open() {
  box.hidden = false;
  tabOf("Race")?.click();
  go(0);
  box.focus({ preventScroll: true });
}

function close() {
  at = null;
  box.hidden = true;
  pointAt(null);
  find(".start").focus({ preventScroll: true });
}

/** Move to another step; after the last one, close the tour. The box takes the focus of a hidden button. */
function move(by) {
  if (at + by >= steps.length) return close();
  go(Math.max(0, at + by));
  if (!box.contains(document.activeElement) || document.activeElement.hidden)
    box.focus({ preventScroll: true });
}

const KEYS = { ArrowRight: () => move(1), ArrowLeft: () => move(-1), Escape: close };

/** Handle keys in the box before the stage, which also uses the arrows. */
function onKey(event) {
  const { key, target, ctrlKey, metaKey, altKey } = event;
  const act = key === "Enter" && target === box ? KEYS.ArrowRight : KEYS[key];
  if (!act || ctrlKey || metaKey || altKey) return;
  event.preventDefault();
  event.stopPropagation();
  act();
}

/** Close the tour on Escape if nothing has the focus. */
function onEscape(event) {
  const nowhere = event.target === document.body && !event.defaultPrevented;
  if (event.key !== "Escape" || at === null || !nowhere || !box.offsetHeight) return;
  event.preventDefault();
  close();
}

find(".start").addEventListener("click", () => (at === null ? open() : close()));
find(".leave").addEventListener("click", close);
find(".back").addEventListener("click", () => move(-1));
find(".next").addEventListener("click", () => move(1));
box.addEventListener("keydown", onKey);
document.addEventListener("keydown", (event) => element.isConnected && onEscape(event));
followRaces(() => element.isConnected && at !== null);
