// The conversation: the messages before the prompt, above the lanes. The next run continues it.

import { constants, trigger } from "../component.js";
import { find, make, say } from "../dom.js";
import { modes } from "./modes.js";
import { runs, redraw, stage, view } from "./state.js";

/**
 * Return the messages that the next run continues; if the visitor replies to an answer, they end with it.
 */
export function conversation() {
  const run = stage.reader.runs[view.reply ?? ""];
  const { settings } = run ?? runs()[0] ?? {};
  if (!settings) return [];
  if (!run) return settings.messages;
  const answer = { role: "assistant", content: run.text, mode: run.mode.name };
  return [...settings.messages, { role: "user", content: settings.prompt }, answer];
}

/** Toggle whether every side continues from this lane's answer. */
export function replyTo(lane) {
  view.reply = view.reply === lane ? null : lane;
  if (view.reply) sendReply();
  else sendHistory(null);
  redraw();
}

let sent = 0; // the number of messages to the server, which may arrive out of order

/** Tell the server that the next prompt continues the current conversation. */
export const sendReply = () => trigger("reply", { messages: conversation(), number: ++sent });

/**
 * Tell the server that the conversation was replaced. `system` is its system prompt; null keeps that of the
 * controls.
 */
export function sendHistory(/** @type {string | null} */ system = systemPrompt(conversation())) {
  trigger("history", { messages: conversation(), system, number: ++sent });
}

/** @param {import("../record.js").Message[]} messages */
const systemPrompt = ([first]) => (first?.role === "system" ? first.content : "");

/** Draw the lane's reply button. */
export function offerReply(lane) {
  const button = find(".reply", lane.root);
  const replying = view.reply === lane.name;
  button.hidden = !constants.main || !lane.run.done || !lane.run.text.trim();
  button.setAttribute("aria-pressed", replying);
  say(button, replying ? "✓ Replying" : "Reply");
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
  const title = stage.reader.runs[view.reply ?? ""]?.title;
  say(
    find(".continues"),
    title ? `Enter the next prompt and press Run: every side continues from the answer of “${title}”.` : "",
  );
}

const WHO = { system: "System prompt", user: "You", assistant: "Answer" };

/** @param {import("../record.js").Message} message */
function turnOf({ role, content, mode }) {
  const turn = make("li", "turn");
  turn.dataset.role = role;
  const said = make("div", "said", content);
  said.dir = "auto";
  turn.append(make("b", "who", modes.get(mode ?? "")?.title ?? WHO[role]), said);
  return turn;
}
