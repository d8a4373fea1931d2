// Draws answers while their records arrive, and compares the finished ones with one of them.
//
// `props.value` is JSON lines, which only grow: a heading with the `lanes`, pairs of a name and a title,
// and `compared`, the lane that the others are compared with; then the lines of their records, each with
// its lane.

import { props, watch } from "../component.js";
import { find, make, say } from "../dom.js";
import { Lines } from "../lines.js";
import { plural } from "../words.js";

const lines = new Lines();
let heading = null;
let lanes = new Map();

const titleOf = (name) => heading.lanes.find(([lane]) => lane === name)[1];

function take(line) {
  if (line.lanes) begin(line);
  else if (line.mode !== undefined) ask(line.prompt);
  else if (line.pass !== undefined) accept(lanes.get(line.lane), line);
  else if (line.done) lanes.get(line.lane).stop = line.stop;
}

function ask(prompt) {
  find(".asked").hidden = false;
  say(find(".prompt"), prompt);
}

function begin(line) {
  find(".asked").hidden = true;
  heading = line;
  lanes = new Map(heading.lanes.map(([name, title]) => [name, laneOf(title)]));
  find(".list").replaceChildren(...[...lanes.values()].map(({ box }) => box));
}

function laneOf(title) {
  const box = make("section", "one");
  box.append(make("p", "title", title), make("div", "text"), make("p", "figures"), make("p", "same"));
  find(".text", box).dir = "auto";
  return { box, tokens: [], forwards: 0, stop: null };
}

function accept(lane, { slots, accepted }) {
  lane.forwards++;
  for (const { id, text } of slots.slice(0, accepted)) {
    lane.tokens.push(id);
    find(".text", lane.box).append(make("span", "token", text));
  }
}

/** Return the index of the first difference of two answers; null if they are the same. */
function firstDifference(one, other) {
  const at = one.findIndex((id, index) => id !== other[index]);
  return at >= 0 ? at : one.length === other.length ? null : one.length;
}

function compare() {
  const base = lanes.get(heading.compared);
  for (const lane of lanes.values()) {
    const figures = `${plural(lane.tokens.length, "token")} in ${plural(lane.forwards, "forward")}`;
    say(find(".figures", lane.box), lane.forwards ? figures : "Not answered yet.");
    const over = lane !== base && lane.stop && base.stop;
    find(".differs", lane.box)?.classList.remove("differs");
    lane.box.dataset.same = "";
    say(find(".same", lane.box), "");
    if (!over) continue;
    const at = firstDifference(lane.tokens, base.tokens);
    lane.box.dataset.same = at === null ? "yes" : "no";
    find(".text", lane.box).children[at ?? -1]?.classList.add("differs");
    const words = at === null ? "the same tokens." : `differs from token ${at + 1} on.`;
    say(find(".same", lane.box), `Compared with “${titleOf(heading.compared)}”: ${words}`);
  }
}

function clear() {
  heading = null;
}

function update() {
  for (const line of lines.take(props.value || "", clear)) take(JSON.parse(line));
  if (heading) compare();
}

watch("value", update);
update();
