// Build the scripts that pages load: `npm run build`. With --check, only compare them with those in mars_demo/show/built/.

import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { build } from "esbuild";

const PACKAGE = new URL("../mars_demo/", import.meta.url).pathname;
const [SHOW, BUILT] = [`${PACKAGE}show/`, `${PACKAGE}show/built/`];
const COMPONENTS = readdirSync(`${SHOW}components`).filter((name) =>
  existsSync(`${SHOW}components/${name}/${name}.js`),
);

// Files beside the live page's worker, which the gallery takes from npm (live/runtime.py).
const LIBRARIES = { "@huggingface/tokenizers": "./runtime/tokenizers.min.mjs" };

/**
 * Return what esbuild makes of a module and its imports.
 * @param {string} entry
 * @param {import("esbuild").BuildOptions} [options]
 */
async function bundle(entry, options) {
  const { outputFiles } = await build({
    entryPoints: [PACKAGE + entry],
    bundle: true,
    minify: true,
    charset: "utf8",
    target: "es2022",
    write: false,
    ...options,
  });
  return /** @type {import("esbuild").OutputFile[]} */ (outputFiles)[0].text;
}

/**
 * Return a component as a function of `given`, which fills its element and runs its modules.
 * @param {string} name
 */
async function component(name) {
  const path = `show/components/${name}/${name}`;
  const html = JSON.stringify(readFileSync(`${PACKAGE}${path}.html`, "utf-8"));
  const body = await bundle(`${path}.js`, { format: "iife" });
  return `(globalThis.marsDemo??={}).${name}=(given)=>{given.element.innerHTML=${html};${body.trimEnd()}};\n`;
}

const scripts = {
  ...Object.fromEntries(COMPONENTS.map((name) => [name, component(name)])),
  page: bundle("show/page.js", { format: "iife" }),
  static: bundle("static/standalone/static.js", { format: "iife" }),
  record: bundle("static/standalone/record.js", { format: "iife" }),
  live: bundle("static/live/live.js", { format: "iife" }),
  worker: bundle("static/live/worker/worker.js", {
    format: "esm",
    external: ["./runtime/*"],
    alias: LIBRARIES,
  }),
};

for (const [name, script] of Object.entries(scripts)) {
  const [path, text] = [`${BUILT}${name}.js`, await script];
  if (!process.argv.includes("--check")) writeFileSync(path, text);
  else if (readFileSync(path, "utf-8") !== text)
    throw new Error(`built/${name}.js is not what its sources give; run npm run build.`);
}
