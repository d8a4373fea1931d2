// The conversation: what was said before the prompt stands above the lanes, and the next run continues it.

import { constants, trigger } from "../component.js";
import { drawnText } from "../code.js";
import { find, make, say } from "../dom.js";
import { modes } from "./modes.js";
import { runs, show, stage, view } from "./state.js";

/** What the next run continues: the messages of the record and, where the visitor replies to one of its answers,
 * that exchange too. */
export function conversation() {
  const run = stage.reader.runs[view.reply];
  const { settings } = run ?? runs()[0] ?? {};
  if (!settings) return [];
  if (!run) return settings.messages;
  const answer = { role: "assistant", content: run.text, mode: run.mode.name };
  return [...settings.messages, { role: "user", content: settings.prompt }, answer];
}

/** Every side continues from this lane's answer; once more takes that back. */
export function replyTo(lane) {
  view.reply = view.reply === lane ? null : lane;
  if (view.reply) tellReply();
  else tellHistory(null);
  show();
}

let told = 0; // which the server needs: on its way, what is told may overtake what was told before

/** The next prompt continues the conversation as it is now. */
export const tellReply = () => trigger("reply", { messages: conversation(), number: ++told });

/** What stands above the lanes is another conversation. `system` is its system prompt; null leaves the one in the
 * controls. */
export function tellHistory(system = systemPrompt(conversation())) {
  trigger("history", { messages: conversation(), system, number: ++told });
}

const systemPrompt = ([first]) => (first?.role === "system" ? first.content : "");

/** The lane's button. */
export function offerReply(lane) {
  const button = find(".reply", lane.root);
  const replying = view.reply === lane.name;
  button.hidden = !constants.shelf || !lane.run.done || !lane.run.text.trim();
  button.setAttribute("aria-pressed", replying);
  say(button, replying ? "✓ Replying to this answer" : "Reply to this answer");
}

let drawn = "[]";

export function drawConversation() {
  const messages = conversation();
  const list = find(".turns");
  const key = JSON.stringify(messages);
  if (key !== drawn) {
    drawn = key;
    list.replaceChildren(...messages.map(turnOf));
    find(".conversation").hidden = !messages.length;
    list.scrollTop = list.scrollHeight;
  }
  find('[data-do="anew"]').disabled = stage.live && !stage.reader.over;
  const title = stage.reader.runs[view.reply]?.title;
  say(find(".continues"), title ? `Enter the next prompt and press Run: every side continues from the answer of “${title}”.` : "");
}

const WHO = { system: "System prompt", user: "You", assistant: "Answer" };

function turnOf({ role, content, mode }) {
  const turn = make("li", "turn");
  turn.dataset.role = role;
  const said = make("div", "said");
  said.dir = "auto";
  said.append(...drawnText(content));
  turn.append(make("b", "who", modes.get(mode)?.title ?? WHO[role]), said);
  return turn;
}
