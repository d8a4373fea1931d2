// The web worker of the live page: it loads a model and runs races, one thing after the other.
//
// Messages to it: {load: {url}}, {race: {prompt, modes, criterion, tau, maxNewTokens}}, {tau}, {stop: true}.
// Messages from it: {progress: {done, total}}, {ready: description}, {lines}, {over: true}, {error: sentence}.
// A load ends with `ready` or `error`, a race with `over` or `error`; a load that another one replaces ends
// silently.

import { Engine, openSession } from "./engine.js";
import { fetchFiles, fetchJson } from "./files.js";
import { race } from "./race.js";
import { Refusal, sentenceOf } from "./refusal.js";
import * as ort from "./runtime/ort.wasm.min.mjs";
import { Tokenizer } from "./runtime/tokenizers.min.mjs";
import { Tokens } from "./tokens.js";

const RUNTIME = new URL("./runtime/", import.meta.url).href;
const LIBRARY = "ort-wasm-simd-threaded.wasm";
const MODEL = "model.onnx";
const EVERY = 50; // ms between two messages of lines
const MOST_THREADS = 4; // more cost more than they bring to such small products

let model = null; // the loaded model, as in race.js, with its session
let knobs = { tau: 1, stopped: false }; // of the latest race
let loading = new AbortController(); // of the latest load
let last = Promise.resolve(); // the latest load or race

ort.env.wasm.wasmPaths = RUNTIME;
ort.env.wasm.numThreads = crossOriginIsolated ? Math.min(navigator.hardwareConcurrency, MOST_THREADS) : 1;

const handlers = {
  load({ url }) {
    stop();
    loading.abort();
    const own = new AbortController();
    loading = own;
    next(() => load(url, own.signal), own);
  },
  race({ tau, ...request }) {
    stop();
    const own = { tau, stopped: false };
    knobs = own;
    next(() => run(request, own));
  },
  tau(tau) {
    knobs.tau = tau;
  },
  stop,
};

addEventListener("message", ({ data }) => {
  for (const [name, value] of Object.entries(data)) handlers[name]?.(value);
});

function stop() {
  knobs.stopped = true;
}

/** Do something after what came before; say so if it fails, unless it was called off. */
function next(work, controller) {
  last = last.then(work).catch((error) => {
    if (controller?.signal.aborted) return;
    controller?.abort(); // other files may still be on their way
    if (!(error instanceof Refusal)) console.error(error);
    postMessage({ error: sentenceOf(error) });
  });
}

/** Load the model of a folder in place of the current one. */
async function load(url, signal) {
  if (signal.aborted) return;
  await model?.session.release(); // first, because there may not be enough memory for two
  model = null;
  const description = await fetchJson(`${url}decoder.json`, signal);
  const ofModel = [MODEL, "tokenizer.json", "tokenizer_config.json"].map((name) => {
    const { bytes, sha256 } = description.files[name];
    return { url: url + name, bytes, sha256, version: sha256 };
  });
  const library = { url: RUNTIME + LIBRARY, version: ort.env.versions.web };
  const report = (progress) => signal.aborted || postMessage({ progress });
  const [weights, ...others] = await fetchFiles([...ofModel, library], report, signal);
  const [content, config] = others.slice(0, 2).map((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  ort.env.wasm.wasmBinary = others[2];
  const session = await openSession(ort, weights);
  ort.env.wasm.wasmBinary = undefined; // it has been compiled
  if (signal.aborted) return session.release();
  model = {
    description,
    session,
    tokens: new Tokens(Tokenizer, content, config, description),
    newEngine: () => new Engine(ort, session, description),
  };
  postMessage({ ready: description });
}

/** Run a race, and post its lines in batches. */
async function run(request, own) {
  if (!model) throw new Refusal("No model is loaded. Load one first.");
  let [lines, shown] = ["", 0];
  const show = () => {
    if (lines) postMessage({ lines });
    [lines, shown] = ["", performance.now()];
  };
  try {
    for await (const line of race(model, request, own)) {
      lines += line;
      if (performance.now() - shown >= EVERY) show();
    }
  } finally {
    show();
  }
  postMessage({ over: true });
}
