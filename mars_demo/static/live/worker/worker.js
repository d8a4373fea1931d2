// A web worker of the live page: it loads one model, then it runs races, one after the other.
//
// Messages to it: {load: {url}}, {race: {prompt, modes, tau, watched, maxNewTokens}}, {tau}, {watched}, {stop: true}.
// Messages from it: {progress: {done, total}}, {ready: description}, {lines}, {over: true}, {error: sentence}.
// The load ends with `ready` or `error`, a race with `over` or `error`. WebAssembly does not give back memory
// before its worker ends, so another model needs another worker.

import { Tokenizer } from "@huggingface/tokenizers";
import { Engine, openSession } from "./engine.js";
import { fetchFiles, fetchJson } from "./files.js";
import { Knobs } from "./knobs.js";
import { measured } from "./pace.js";
import { race } from "./race.js";
import { Refusal, sentenceOf } from "./refusal.js";
import { Tokens } from "./tokens.js";

const RUNTIME = new URL("./runtime/", import.meta.url).href;
const NEEDED = ["model.onnx", "tokenizer.json", "tokenizer_config.json"]; // beside the weights
const WEIGHTS = /^weights-/;
const EVERY = 50; // ms between two messages of lines
const MOST_THREADS = 4; // more cost more than they bring to such small products

/** @type {import("./race.js").Model | null} */
let model = null; // as in race.js, once it has been loaded
let knobs = new Knobs(1); // of the latest race
let last = Promise.resolve(); // the load or the latest race

const handlers = {
  load({ url }) {
    next(() => load(url));
  },
  race({ tau, watched, ...request }) {
    knobs.stop();
    const own = new Knobs(tau, watched);
    knobs = own;
    next(() => run(request, own));
  },
  tau(tau) {
    knobs.tau = tau;
  },
  watched(watched) {
    knobs.watch(watched);
  },
  stop() {
    knobs.stop();
  },
};

addEventListener("message", ({ data }) => {
  for (const [name, value] of Object.entries(data)) handlers[name]?.(value);
});

/** Do something after what came before; say so if it fails. */
function next(work) {
  last = last.then(work).catch((error) => {
    if (!(error instanceof Refusal)) console.error(error);
    postMessage({ error: sentenceOf(error) });
  });
}

/** Load the model of a folder. */
async function load(/** @type {string} */ url) {
  const ort = await import(`${RUNTIME}ort.wasm.min.mjs`);
  Object.assign(ort.env.wasm, { wasmPaths: RUNTIME, numThreads: threads() });
  const description = await fetchJson(`${url}decoder.json`);
  const parts = Object.keys(description.files).filter((name) => WEIGHTS.test(name));
  const ofModel = [...NEEDED, ...parts].map((name) => {
    const { bytes, sha256 } = description.files[name];
    return { url: url + name, bytes, sha256, version: sha256 };
  });
  const ofRuntime = { url: `${RUNTIME}ort-wasm-simd-threaded.wasm`, version: ort.env.versions.web };
  const [binary, graph, ...others] = await fetchFiles([ofRuntime, ...ofModel], (progress) =>
    postMessage({ progress }),
  );
  const [content, config] = others.splice(0, 2).map((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  ort.env.wasm.wasmBinary = binary;
  const weights = parts.map((path, index) => ({ path, data: others[index] }));
  const session = await openSession(ort, graph, weights);
  ort.env.wasm.wasmBinary = undefined; // it has been compiled
  const newEngine = () => new Engine(ort, session, description);
  model = {
    description,
    tokens: new Tokens(Tokenizer, content, config, description),
    newEngine,
    costs: await measured(newEngine(), description.window - 1),
  };
  postMessage({ ready: description });
}

function threads() {
  return crossOriginIsolated ? Math.min(navigator.hardwareConcurrency, MOST_THREADS) : 1;
}

/** Run a race, and post its lines in batches. */
async function run(request, own) {
  if (!model) throw new Refusal("No model is loaded. Load one first.");
  let [lines, shown] = ["", 0];
  let first = request.modes.length; // lines before the first forward, which may take long
  const show = () => {
    if (lines) postMessage({ lines });
    [lines, shown] = ["", performance.now()];
  };
  try {
    for await (const line of race(model, request, own)) {
      lines += line;
      if (first-- > 0 || performance.now() - shown >= EVERY) show();
    }
  } finally {
    show();
  }
  postMessage({ over: true });
}
