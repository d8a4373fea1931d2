// A step that asks for a prediction, races the model live, and shows the outcome.

import { trigger } from "../component.js";
import { find, findAll, make, say } from "../dom.js";
import { choiceText, outcome } from "./outcome.js";
import { pointAt } from "./pointing.js";

let prediction = null; // {step, choice, began} until the end of its race; `began` is 0 before its start

const runButton = () => document.querySelector("#run");

export function ask(step) {
  prediction = null;
  const { race } = step;
  find(".question").hidden = !race;
  showOutcome([]);
  say(find("#tour-question"), race?.question ?? "");
  find(".choices").replaceChildren(...(race?.choices ?? []).map((choice) => buttonOf(step, choice)));
}

function buttonOf(step, choice) {
  const button = make("button", "", choiceText(choice));
  button.type = "button";
  button.ariaPressed = "false";
  button.addEventListener("click", () => choose(button, step, choice));
  return button;
}

function choose(button, step, choice) {
  if (prediction?.began) return; // its race runs
  for (const other of findAll(".choices button")) other.ariaPressed = `${other === button}`;
  prediction = { step, choice, began: 0 };
  if (runButton().disabled)
    showOutcome(["Another race is running. This one begins when it ends, or when you press Stop."]);
  else begin();
}

function begin() {
  prediction.began = performance.now();
  showOutcome(["Racing …"]);
  const { prompt, model, mode, tau } = prediction.step.race;
  trigger("race", { prompt, model, mode, tau, criterion: "probability" });
  pointAt(prediction.step.at);
}

/** Show the sentences of the outcome, the first one in bold. */
function showOutcome(sentences) {
  find(".outcome").replaceChildren(
    ...sentences.map((sentence, index) => make(index ? "span" : "b", "", `${sentence} `)),
  );
  find(".box").scrollTop = find(".box").scrollHeight; // if the box is too small
}

/**
 * Show the outcome of a race that ended on the stage, from its runs with their accepted slots by forward.
 */
function show(runs) {
  if (!prediction?.began) return;
  const { choice, step } = prediction;
  const isOwn = ({ mode, prompt, begun }) =>
    mode === step.race.mode && prompt === step.race.prompt && begun >= prediction.began;
  const run = runs.find(isOwn); // another race may end first
  if (!run) return;
  const sentences = outcome(
    step.race.asks,
    choice,
    run,
    runs.find(({ mode }) => mode === "ar"),
  );
  prediction = null;
  showOutcome(sentences ?? ["The race was stopped before its end. Choose again to rerun it."]);
  pointAt(step.at);
}

/** Handle the end of a race: begin a waiting one; a race that ended without a record has failed. */
function idle() {
  if (!prediction) return;
  if (!prediction.began) return begin();
  prediction = null;
  showOutcome(["The race did not begin. Choose again to retry."]);
}

export function followRaces(isMine) {
  document.addEventListener(
    "raced",
    ({ target, detail }) => isMine() && target.closest("#stage") && show(detail),
  );
  let disabled = false;
  const look = () => {
    if (!isMine() || !runButton() || runButton().disabled === disabled) return;
    disabled = !disabled;
    if (!disabled) idle();
  };
  new MutationObserver(look).observe(document.body, { subtree: true, attributeFilter: ["disabled"] });
}
