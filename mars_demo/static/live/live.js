// The live page: its controls, and a worker that decodes.

import { TAU_STEP, megabytes, tauText } from "../../show/components/words.js";
import { begin } from "../standalone/figures.js";

let live; // what the page was written with: its models and settings
/** @type {(selector: string) => any} */
const page = (selector) => document.querySelector(selector);
/** @type {(selector: string) => any[]} */
const pages = (selector) => [...document.querySelectorAll(selector)];
/** @type {any} */
let worker = null; // of the chosen model
let record = ""; // of the race on the stage
let racing = false;

/** Write a page that replays a record, as the app's server does. */
async function replay_page(saved) {
  const response = await fetch("../shared/replay.html");
  if (!response.ok) throw new Error("The site did not send the page to save. Try again in a moment.");
  const withoutMarkup = saved.replaceAll(
    /[<>&\u2028\u2029]/g,
    (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`,
  );
  return (await response.text()).replace(live.slot, () => withoutMarkup);
}

// ------------------------------------------------------------------------------------ the model

function say(text, failed = false) {
  page(".said").textContent = text;
  page(".loading").classList.toggle("failed", failed);
}

function load() {
  const name = page(".models :checked").value;
  const chosen = live.models.find((model) => model.name === name);
  introduce(chosen);
  if (location.protocol === "file:")
    return say("Browsers decode only on pages from a web server, not from a disk.", true);
  page(".run").disabled = true;
  worker?.terminate(); // frees the memory of its model
  worker = new Worker("worker/worker.js", { type: "module" });
  worker.addEventListener("message", ({ data }) => {
    for (const [answer, value] of Object.entries(data)) answers[answer](value);
  });
  worker.addEventListener("error", () => fail("This browser cannot run the decoder. Try a newer one."));
  say(`Loading ${chosen.name}, ${chosen.megabytes} MB with the libraries that run it …`);
  worker.postMessage({ load: { url: new URL(`models/${chosen.name}/`, location.href).href } });
}

/** Show a model's description, its examples and its recorded run. */
function introduce({ name, examples, opening }) {
  for (const about of pages(".about")) about.hidden = about.dataset.model !== name;
  const prompts = Array.from(page(".examples").options, ({ value }) => value);
  page(".examples").replaceChildren(...examples.map(({ title, prompt }) => new Option(title, prompt)));
  if (["", ...prompts].includes(page(".typed").value)) choose(); // a prompt of the visitor stays
  tell("record", opening);
  tell("examples", examples);
}

/** Send an event to the stage. */
const tell = (event, detail) => page(".stage").dispatchEvent(new CustomEvent(event, { detail }));

/** Show the bytes that have come, out of all of them. */
function showProgress({ done, total }) {
  Object.assign(page("progress"), { hidden: false, max: total, value: done });
  page(".bytes").textContent = `${megabytes(done)} of ${megabytes(total)}`;
  if (done === total) say("Starting the model …");
}

function hideProgress() {
  page("progress").hidden = true;
  page(".bytes").textContent = "";
}

function ready({ name }) {
  hideProgress();
  page(".run").disabled = false;
  say(`${name} is ready.`);
}

// ------------------------------------------------------------------------------------- the race

function run() {
  const modes = [...pages(".modes :checked")].map(({ value }) => value);
  [record, racing] = ["", true];
  say("");
  enable();
  worker.postMessage({
    race: {
      prompt: page(".typed").value,
      modes: ["ar", ...modes],
      tau: tau(),
      watched: page(".watched").checked,
      maxNewTokens: live.tokens,
      adaptive: true,
    },
  });
}

function enable() {
  for (const selector of [".run", ".models"]) page(selector).disabled = racing;
  page(".stop").disabled = !racing;
}

function grow(lines) {
  if (!record && matchMedia("(max-width: 640px)").matches) page(".stage").scrollIntoView();
  record += lines;
  tell("growing", record);
}

function over() {
  racing = false;
  enable();
}

function fail(sentence) {
  say(sentence, true);
  if (racing) return over();
  hideProgress();
  page(".run").disabled = true;
  worker.terminate(); // other files may still be on their way
}

const tau = () => Number(page(".tau").value);

function setTau() {
  page(".tau-now").textContent = tauText(tau());
  worker?.postMessage({ tau: tau() });
}

const setWatched = () => worker?.postMessage({ watched: page(".watched").checked });

function choose() {
  page(".typed").value = page(".examples").value;
}

/** Run the prompt of the stage again, with another τ if one is given. */
function again({ detail }) {
  page(".typed").value = detail.prompt;
  if (detail.tau !== null) page(".tau").value = detail.tau;
  setTau();
  if (!racing && !page(".run").disabled) run();
}

// ---------------------------------------------------------------------------------------- start

const answers = { progress: showProgress, ready, lines: grow, over, error: fail };

function listen() {
  page(".controls").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  page(".stop").addEventListener("click", () => worker.postMessage({ stop: true }));
  page(".tau").addEventListener("input", setTau);
  page(".watched").addEventListener("change", setWatched);
  page(".models").addEventListener("change", load);
  page(".examples").addEventListener("change", choose);
  page(".typed").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!page(".run").disabled) run();
  });
  const stage = page("[data-figure=stage]");
  stage.addEventListener("again", again);
  stage.addEventListener("example", ({ detail }) => (page(".typed").value = detail.prompt));
}

begin({ replay_page });
addEventListener("DOMContentLoaded", () => {
  live = JSON.parse(page("#live").textContent);
  Object.assign(page(".tau"), { step: TAU_STEP, value: live.tau });
  setTau();
  listen();
  load();
});
