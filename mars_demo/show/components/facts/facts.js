// The facts of the chosen model; before, its progress of downloading and loading.
//
// `props.value` is JSON: the `phase` of a model's `pool.Member`, its `done` and `total` bytes, its
// `problem`, and the `facts`, pairs of a name and a text.

import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { megabytes } from "../words.js";

const DOING = { waiting: "Waiting to load.", fetching: "Fetching", loading: "Loading" };

function sentence({ phase, done, total, problem }) {
  if (phase === "failed") return `⚠ ${problem}`;
  if (!(phase in DOING)) return "";
  return total ? `${DOING[phase]} ${megabytes(done)} of ${megabytes(total)}` : DOING[phase];
}

function update() {
  if (!props.value) return;
  const state = JSON.parse(props.value);
  const words = find(".sentence");
  say(words, sentence(state));
  words.dataset.phase = state.phase;
  words.hidden = !words.textContent;
  const bar = find("progress");
  bar.hidden = !["fetching", "loading"].includes(state.phase);
  if (state.total) Object.assign(bar, { max: state.total, value: state.done });
  else bar.removeAttribute("value");
  find("dl").replaceChildren(
    ...state.facts.flatMap(([name, text]) => [make("dt", "", name), make("dd", "", text)]),
  );
}

watch("value", update);
update();
