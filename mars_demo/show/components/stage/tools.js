// The tools below the stage: recorded runs, files and links.

import { constants, server, trigger } from "../component.js";
import { find, say } from "../dom.js";
import { isAddress, nameRecording, queryValue } from "../../url.js";
import { fetchRecord } from "./address.js";
import { inView, show } from "./records.js";
import { runs, stage } from "./state.js";

// Gradio does not throw when a server function fails: its result is then no text.

async function recordingOf(id) {
  if (isAddress(id)) return validated(await fetchRecord(id), "the record");
  const text = await server.recording(id);
  if (!text) throw new Error("The server did not send the recorded run. Try again in a moment.");
  return text;
}

/** Show a recorded run, `chosen` by the visitor or named by the URL, which may give its address. */
export async function showRecording(id, chosen = true) {
  const text = await recordingOf(id);
  if (chosen) nameRecording(id); // before the event below: the controls take their settings from the URL
  show(text, { recording: id });
  if (chosen) trigger("recorded", { id });
}

export function nextRecording() {
  const ids = constants.recordings.map(({ id }) => id);
  return inView(showRecording(ids[(ids.indexOf(stage.reader.recording?.recording) + 1) % ids.length]));
}

/** Show a recorded run beside the stage's first record; without an id, only that record. */
export async function showBeside(id) {
  const other = id && (await recordingOf(id));
  const [race] = stage.reader.races;
  if (!race) throw new Error("The stage has no record to compare with yet.");
  const first = stage.reader.textOf(race);
  show(other ? [first, other] : first, { recording: stage.recording, beside: id || null });
}

export function listRecordings() {
  const options = () => constants.recordings.map(({ id, title }) => new Option(title, id));
  const none = Object.assign(new Option("choose…", ""), { disabled: true });
  find(".recordings").append(none, ...options());
  find(".beside").append(new Option("nothing", ""), ...options());
}

/** Show files side by side once the server has validated them. */
export async function openFiles(files) {
  if (files.length) show(await Promise.all([...files].map(read)));
}

async function read(file) {
  const { mebibytes } = constants;
  if (file.size > mebibytes * 2 ** 20)
    throw new Error(`${file.name} is too large: a record has at most ${mebibytes} MiB.`);
  return validated(await file.text(), file.name);
}

async function validated(text, name) {
  const refusal = await server.refusal(text);
  if (typeof refusal !== "string")
    throw new Error(`The server did not check ${name}. Try again in a moment.`);
  if (refusal) throw new Error(refusal);
  return text;
}

const fileName = () => `mars-${runs()[0]?.settings.run ?? "stage"}`.replaceAll(/[^\w-]/g, "");

export function saveRecord() {
  const { file } = stage.reader;
  if (!file) throw new Error("The stage has no record yet.");
  download(`${fileName()}.jsonl`, new Blob([file], { type: "application/x-ndjson" }));
}

/** Download the record as an HTML file that replays it without a server. */
export async function savePage() {
  const { races } = stage.reader;
  if (!races.length) throw new Error("The stage has no record yet.");
  const page = await server.replay_page(races.map((race) => stage.reader.textOf(race)).join(""));
  if (!page) throw new Error("The server did not make the page. Try again in a moment.");
  download(`${fileName()}.html`, new Blob([page], { type: "text/html" }));
}

export async function copyLink() {
  const button = find('[data-do="link"]');
  await navigator.clipboard.writeText(location.href);
  const isWhole = stage.recording || queryValue("prompt") !== null;
  say(button, isWhole ? "Copied" : "Copied without the prompt");
  setTimeout(() => say(button, "Copy link"), 1500);
}

function download(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000); // while the browser may still read it
}
