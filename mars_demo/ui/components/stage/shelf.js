// What a visitor takes from the shelf or puts on it: recorded runs, files, pictures and links.

import { constants, server, trigger } from "../component.js";
import { find, make, say } from "../dom.js";
import { download, downloadPicture } from "../svg.js";
import { conversation } from "./conversation.js";
import { hasPrompt, nameRecording } from "./links.js";
import { pictureOf } from "./picture.js";
import { open } from "./records.js";
import { runs, stage, view } from "./state.js";

const LARGEST_FILE = 64; // MiB

/** `chosen` by the visitor, not by the page's address. */
export async function showRecording(id, chosen = true) {
  if (chosen) nameRecording(id);
  open(await server.recording(id), chosen);
  stage.recording = id;
  if (chosen) trigger("recorded", { id });
}

export function nextRecording() {
  const ids = constants.recordings.map(({ id }) => id);
  return showRecording(ids[(ids.indexOf(stage.reader.recording?.recording) + 1) % ids.length]);
}

export function listRecordings() {
  const none = optionOf("", "choose…");
  none.disabled = true;
  find(".recordings").append(none, ...constants.recordings.map(({ id, title }) => optionOf(id, title)));
}

function optionOf(value, text) {
  const option = make("option", "", text);
  option.value = value;
  return option;
}

export async function openFile(file) {
  if (!file) return;
  if (file.size > LARGEST_FILE * 2 ** 20) throw new Error(`This file is larger than ${LARGEST_FILE} MiB, which no record of a run is.`);
  open(await file.text());
}

const fileName = () => `mars-${runs()[0]?.settings.run ?? "stage"}`.replaceAll(/[^\w-]/g, "");

export function saveRecord() {
  const { file } = stage.reader;
  if (!file) throw new Error("There is no record on the stage yet.");
  download(`${fileName()}.jsonl`, new Blob([file], { type: "application/x-ndjson" }));
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
