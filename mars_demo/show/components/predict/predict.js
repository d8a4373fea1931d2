// A question with three choices. The figure after it stays hidden until the reader has chosen one, or "Show".
//
// `props.value` is the JSON of a chapter's `question`, its `choices`, the index of the `answer`, and the sentence
// `because`; empty for a chapter without a question.

import { element, props, watch } from "../component.js";
import { find, findAll, make, say } from "../dom.js";

/** Let the figure wait, or show it. */
function wait(/** @type {boolean} */ isWaiting) {
  find(".predict").classList.toggle("waiting", isWaiting);
  // An attribute of the block beside the figure: `:has(.waiting)` would be looked for at every token on the page.
  const block = element.closest(":is(#lesson-figure, article + section) > *");
  block?.toggleAttribute("data-waiting", isWaiting);
}

/** Mark the right choice and, if another one was chosen, that one too; show the figure. */
function reveal({ choices, answer, because }, chosen) {
  wait(false);
  for (const [index, button] of findAll(".choices button").entries()) {
    button.disabled = index !== chosen; // the focus stays
    button.classList.toggle("chosen", index === chosen);
    if (index === answer) button.dataset.mark = "✓";
    else if (index === chosen) button.dataset.mark = "✗";
  }
  find(".show").hidden = true;
  const opening = { [answer]: "Right", null: "Answer" }[chosen] ?? "Not quite";
  say(find(".outcome"), `${opening}: ${choices[answer]}. ${because}`);
}

function buttonOf(name, className, press) {
  const button = make("button", className, name);
  button.type = "button";
  button.addEventListener("click", press);
  return button;
}

function draw(question) {
  say(find(".asked"), `Predict first: ${question.question}`);
  find(".choices").ariaLabel = question.question;
  const choose = (index) => () => find(".waiting") && reveal(question, index);
  find(".choices").replaceChildren(
    ...question.choices.map((choice, index) => buttonOf(choice, "", choose(index))),
    buttonOf("Show", "show", choose(null)),
  );
  say(find(".outcome"), "");
}

function update() {
  const isAsked = Boolean(props.value);
  find(".predict").hidden = !isAsked;
  wait(isAsked);
  if (isAsked) draw(JSON.parse(props.value));
}

watch("value", update);
update();
