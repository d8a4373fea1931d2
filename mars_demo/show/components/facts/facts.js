// The facts of the chosen model; before, whether it is being loaded.
//
// `props.value` is JSON: the `phase` of a model's `pool.Member`, its `problem`, and the `facts`, pairs of a
// name and a text.

import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";

const DOING = { waiting: "Waiting to load.", loading: "Loading" };

function update() {
  if (!props.value) return;
  const { phase, problem, facts } = JSON.parse(props.value);
  const words = find(".sentence");
  say(words, phase === "failed" ? `⚠ ${problem}` : (DOING[phase] ?? ""));
  words.dataset.phase = phase;
  words.hidden = !words.textContent;
  find("progress").hidden = phase !== "loading";
  find("dl").replaceChildren(
    ...facts.flatMap(([name, text]) => [make("dt", "", name), make("dd", "", text)]),
  );
}

watch("value", update);
update();
