// The live page: its controls, and the worker that decodes.

let live; // what the page was written with: its models and settings
const page = (selector) => document.querySelector(selector);
const stage = () => page("[data-figure=stage]");
const worker = location.protocol === "file:" ? null : new Worker("worker/worker.js", { type: "module" });
let record = ""; // of the race on the stage
let racing = false;

/** Write a page that replays a record, as the app's server does. */
server.replay_page = async (saved) => {
  const response = await fetch("../shared/replay.html");
  if (!response.ok) throw new Error("The site did not send the page to save. Try again in a moment.");
  const [before, between, after] = (await response.text()).split(live.slot);
  const prompt = JSON.parse(saved.split("\n", 1)[0]).prompt ?? "";
  const title = prompt.length > 80 ? `${prompt.slice(0, 78)} …` : prompt;
  return `${before}${withoutMarkup(title, (code) => `&#${code};`)}${between}${withoutMarkup(saved, escaped)}${after}`;
};

const withoutMarkup = (text, as) => text.replaceAll(/[<>&\u2028\u2029]/g, (one) => as(one.codePointAt(0)));
const escaped = (code) => `\\u${code.toString(16).padStart(4, "0")}`;

// ------------------------------------------------------------------------------------ the model

function say(text, failed = false) {
  page(".said").textContent = text;
  page(".loading").classList.toggle("failed", failed);
}

function load() {
  const chosen = live.models.find(({ name }) => name === page(".models").value);
  page(".run").disabled = true;
  page(".examples").replaceChildren(
    ...chosen.examples.map(({ title, prompt }) => new Option(title, prompt)),
  );
  choose();
  say(`Loading ${chosen.name}, ${chosen.megabytes} MB with the libraries that run it …`);
  worker.postMessage({ load: { url: new URL(`models/${chosen.name}/`, location.href).href } });
}

/** Show the bytes that have come, out of all of them. */
function showProgress({ done, total }) {
  const bar = page("progress");
  bar.hidden = false;
  bar.max = total;
  bar.value = done;
  bar.textContent = `${Math.round((100 * done) / total)} %`;
}

function ready({ name }) {
  page("progress").hidden = true;
  page(".run").disabled = false;
  say(`${name} is ready.`);
}

// ------------------------------------------------------------------------------------- the race

function run() {
  const modes = [...document.querySelectorAll(".controls [type=checkbox]:checked")].map(
    ({ value }) => value,
  );
  [record, racing] = ["", true];
  say("");
  enable();
  worker.postMessage({
    race: {
      prompt: page(".typed").value,
      modes: ["ar", ...modes],
      criterion: "probability",
      tau: tau(),
      maxNewTokens: live.tokens,
    },
  });
}

function enable() {
  page(".run").disabled = racing;
  page(".stop").disabled = !racing;
}

function grow(lines) {
  record += lines;
  stage().dispatchEvent(new CustomEvent("value", { detail: record }));
}

function over() {
  racing = false;
  enable();
}

function fail(sentence) {
  page("progress").hidden = true;
  say(sentence, true);
  if (racing) over();
}

const tau = () => Number(page(".tau").value);

function setTau() {
  page(".tau-now").textContent = tau().toFixed(2);
  worker?.postMessage({ tau: tau() });
}

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

const answers = {
  progress: showProgress,
  ready,
  lines: grow,
  over,
  error: fail,
};

function listen() {
  worker.addEventListener("message", ({ data }) => {
    for (const [name, value] of Object.entries(data)) answers[name](value);
  });
  worker.addEventListener("error", () => fail("This browser cannot run the decoder. Try a newer one."));
  page(".controls").addEventListener("submit", (event) => {
    event.preventDefault();
    run();
  });
  page(".stop").addEventListener("click", () => worker.postMessage({ stop: true }));
  page(".models").addEventListener("change", load);
  page(".examples").addEventListener("change", choose);
  page(".typed").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!page(".run").disabled) run();
  });
  stage().addEventListener("again", again);
}

addEventListener("DOMContentLoaded", () => {
  live = JSON.parse(document.getElementById("live").textContent);
  page(".models").replaceChildren(...live.models.map(({ name }) => new Option(name)));
  page(".tau").addEventListener("input", setTau);
  Object.assign(page(".tau"), { step: live.step, value: live.tau });
  setTau();
  if (!worker) return say("Browsers decode only on pages from a web server, not from a disk.", true);
  listen();
  load();
});
