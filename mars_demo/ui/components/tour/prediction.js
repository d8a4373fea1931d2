// A step that asks for a prediction, races the model live, and then says what the record shows.

import { trigger } from "../component.js";
import { find, findAll, make, say } from "../dom.js";
import { choiceText, outcome } from "./outcome.js";
import { pointAt } from "./pointing.js";

let asked = null; // {step, choice, began} from the choice to the end of its race; when that began, 0 before

const runButton = () => document.querySelector("#run");

export function ask(step) {
  asked = null;
  const { race } = step;
  find(".question").hidden = !race;
  tell([]);
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
  if (asked?.began) return; // its race is running
  for (const other of findAll(".choices button")) other.ariaPressed = `${other === button}`;
  asked = { step, choice, began: 0 };
  if (runButton().disabled) tell(["Another race is running. This one begins when that has ended, or when you press Stop."]);
  else begin();
}

function begin() {
  asked.began = performance.now();
  tell(["Racing …"]);
  const { prompt, model, mode, tau } = asked.step.race;
  trigger("race", { prompt, model, mode, tau, criterion: "probability" });
  pointAt(asked.step.at);
}

/** The sentences of the outcome, the first one set off. */
function tell(sentences) {
  find(".outcome").replaceChildren(...sentences.map((sentence, index) => make(index ? "span" : "b", "", `${sentence} `)));
  find(".box").scrollTop = find(".box").scrollHeight; // where the box is too small for all of it
}

/** A race ended on the stage: runs with their mode, prompt and accepted slots by forward. */
function show(runs) {
  if (!asked?.began) return;
  const { choice, step } = asked;
  const isOwn = ({ mode, prompt, begun }) => mode === step.race.mode && prompt === step.race.prompt && begun >= asked.began;
  const run = runs.find(isOwn); // another race may end after this one was asked for
  if (!run) return;
  const sentences = outcome(step.race.asks, choice, run, runs.find(({ mode }) => mode === "ar"));
  asked = null;
  tell(sentences ?? ["The race was stopped before its end. Choose again to run it once more."]);
  pointAt(step.at);
}

/** Run goes on again: whoever waited for that begins; a race that ended without a record has failed. */
function idle() {
  if (!asked) return;
  if (!asked.began) return begin();
  asked = null;
  tell(["The race did not begin. Choose again to try once more."]);
}

export function followRaces(isMine) {
  document.addEventListener("raced", ({ target, detail }) => isMine() && target.closest("#stage") && show(detail));
  let disabled = false;
  const look = () => {
    if (!isMine() || !runButton() || runButton().disabled === disabled) return;
    disabled = !disabled;
    if (!disabled) idle();
  };
  new MutationObserver(look).observe(document.body, { subtree: true, attributeFilter: ["disabled"] });
}
