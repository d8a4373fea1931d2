// What a visitor takes from the shelf or puts on it: recorded runs, files, pictures and links.

import { constants, server, trigger } from "../component.js";
import { find, make, say } from "../dom.js";
import { download, downloadPicture } from "../svg.js";
import { conversation } from "./conversation.js";
import { hasPrompt, nameRecording } from "./links.js";
import { pictureOf } from "./picture.js";
import { open, openBeside } from "./records.js";
import { runs, stage, view } from "./state.js";

async function recordingOf(id) {
  const text = await server.recording(id);
  if (!text) throw new Error("The server did not send the recorded run. Try again in a moment."); // Gradio throws nothing then
  return text;
}

/** `chosen` by the visitor, not by the page's address. */
export async function showRecording(id, chosen = true) {
  const text = await recordingOf(id);
  if (chosen) nameRecording(id); // with what follows in one go: the controls take their settings by this name
  open(text, chosen, { recording: id });
  if (chosen) trigger("recorded", { id });
}

export function nextRecording() {
  const ids = constants.recordings.map(({ id }) => id);
  return showRecording(ids[(ids.indexOf(stage.reader.recording?.recording) + 1) % ids.length]);
}

/** A recorded run beside what is on the stage; without an id, nothing. */
export async function showBeside(id) {
  if (id) return openBeside(await recordingOf(id), { beside: id });
  const [race] = stage.reader.races;
  open(stage.reader.textOf(race), true, { recording: stage.recording });
}

export function listRecordings() {
  const options = () => constants.recordings.map(({ id, title }) => optionOf(id, title));
  const none = optionOf("", "choose…");
  none.disabled = true;
  find(".recordings").append(none, ...options());
  find(".beside").append(optionOf("", "nothing"), ...options());
}

function optionOf(value, text) {
  const option = make("option", "", text);
  option.value = value;
  return option;
}

/** One file, or several side by side, once the server has found that they are records. */
export async function openFiles(files) {
  if (files.length) open(await Promise.all([...files].map(checked)));
}

async function checked(file) {
  const { mebibytes } = constants;
  if (file.size > mebibytes * 2 ** 20) throw new Error(`This is larger than ${mebibytes} MiB, the most that a record of a run may have here.`);
  const text = await file.text();
  const refusal = await server.refusal(text);
  if (typeof refusal !== "string") throw new Error(`The server did not check ${file.name}. Try again in a moment.`); // Gradio throws nothing then
  if (refusal) throw new Error(refusal);
  return text;
}

/** The recorded run that a link to this page names, beside what is on the stage. */
export function openLink(text) {
  const id = constants.shelf && URL.canParse(text) && new URL(text).searchParams.get("run");
  if (!constants.recordings.some((one) => one.id === id)) throw new Error("Drop one or two records, or a link to one of the recorded runs.");
  return showBeside(id);
}

const fileName = () => `mars-${runs()[0]?.settings.run ?? "stage"}`.replaceAll(/[^\w-]/g, "");

export function saveRecord() {
  const { file } = stage.reader;
  if (!file) throw new Error("There is no record on the stage yet.");
  download(`${fileName()}.jsonl`, new Blob([file], { type: "application/x-ndjson" }));
}

/** The record as one HTML file, which replays it without a server. */
export async function savePage() {
  const { races } = stage.reader;
  if (!races.length) throw new Error("There is no record on the stage yet.");
  const page = await server.replay_page(races.map((race) => stage.reader.textOf(race)).join(""));
  if (!page) throw new Error("The server did not make the page. Try again in a moment."); // Gradio throws nothing then
  download(`${fileName()}.html`, new Blob([page], { type: "text/html" }));
}

export function savePicture(kind) {
  const fit = () => Object.values(view.lanes).forEach((lane) => lane.code.fit());
  return downloadPicture(fileName(), kind, pictureOf(find(".stage"), fit), 2);
}

export async function copyLink() {
  const button = find('[data-do="link"]');
  await navigator.clipboard.writeText(location.href);
  const without = conversation().length ? "Copied without the conversation" : "Copied without the prompt";
  say(button, stage.recording || hasPrompt() ? "Copied" : without);
  setTimeout(() => say(button, "Copy link"), 1500);
}
