// Races and token ids of the live page's modules in Node, for tests/live_runs.py: a job in JSON from standard
// input, its results in JSON to standard output.

import { readdirSync, readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { Tokenizer } from "@huggingface/tokenizers";
import * as ort from "onnxruntime-web";
import { Engine, openSession } from "../../mars_demo/static/live/worker/engine.js";
import { Knobs } from "../../mars_demo/static/live/worker/knobs.js";
import { race } from "../../mars_demo/static/live/worker/race.js";
import { Tokens } from "../../mars_demo/static/live/worker/tokens.js";

const jobs = { races, encode, decode, names };

/** Return the lines of each race of an exported model. */
async function races({ folder, races }) {
  ort.env.wasm.numThreads = 1;
  const description = json(folder, "decoder.json");
  const weights = readdirSync(folder)
    .filter((name) => name.startsWith("weights-"))
    .map((path) => ({ path, data: readFileSync(`${folder}/${path}`) }));
  const session = await openSession(ort, readFileSync(`${folder}/model.onnx`), weights, "wasm");
  const model = {
    description,
    device: "wasm",
    tokens: tokensOf({ folder, description }),
    newEngine: () => new Engine(ort, session, description),
  };
  const results = [];
  for (const { tau, ...request } of races) results.push(await joined(race(model, request, new Knobs(tau))));
  return results;
}

async function joined(lines) {
  let whole = "";
  for await (const line of lines) whole += line;
  return whole;
}

/** Return the ids of each prompt. */
function encode({ prompts, ...job }) {
  const tokens = tokensOf(job);
  return prompts.map((prompt) => tokens.encodePrompt(prompt));
}

/** Return the text of each list of ids. */
function decode({ lists, ...job }) {
  const tokens = tokensOf(job);
  return lists.map((ids) => tokens.decode(ids));
}

/** Return the name of each token. */
function names({ count, ...job }) {
  const tokens = tokensOf(job);
  return Array.from({ length: count }, (_, id) => tokens.name(id));
}

/** Return the tokenizer of a folder, for a model of this description. */
function tokensOf({ folder, description }) {
  return new Tokens(
    Tokenizer,
    json(folder, "tokenizer.json"),
    json(folder, "tokenizer_config.json"),
    description,
  );
}

/** Return the content of a JSON file. */
function json(folder, name) {
  return JSON.parse(readFileSync(`${folder}/${name}`, "utf-8"));
}

const { job, ...settings } = JSON.parse(await text(process.stdin));
process.stdout.write(JSON.stringify(await jobs[job](settings)));
