// The files of a model: fetched with progress, checked by their hashes, and kept in the browser's cache.

import { Refusal } from "./refusal.js";

/**
 * A file to fetch, with an absolute URL.
 * @typedef {object} File
 * @property {string} url
 * @property {number} [bytes] its size, if known
 * @property {string} version distinguishes its contents over time: its SHA-256, or the version of a library
 * @property {string} [sha256] in hex; it is checked where the browser can
 */

/** @typedef {(progress: { done: number, total: number }) => void} Report */

const CACHE = "mars-demo-live";

/** Fetch a JSON file, past the browser's own cache. */
export async function fetchJson(/** @type {string} */ url) {
  const response = await respond(url, { cache: "no-cache" });
  try {
    return await response.json();
  } catch {
    throw new Refusal(`${nameOf(url)} from the site is not JSON.`);
  }
}

/** Return the contents of files, from the browser's cache or the web, with reports of the bytes so far. */
export async function fetchFiles(/** @type {File[]} */ files, /** @type {Report} */ report) {
  const cache = await openCache();
  const parts = files.map(({ bytes }) => ({ done: 0, total: bytes ?? 0 }));
  return Promise.all(
    files.map((file, index) =>
      contentOf(file, cache, (part) => {
        parts[index] = part;
        report({ done: sum(parts.map(({ done }) => done)), total: sum(parts.map(({ total }) => total)) });
      }),
    ),
  );
}

/** @param {number[]} numbers */
const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);

/** Return this page's cache; null if there is none, or the visitor's settings forbid it. */
async function openCache() {
  try {
    return await caches.open(CACHE);
  } catch {
    return null;
  }
}

/**
 * Return the content of a file.
 * @param {File} file
 * @param {Cache | null} cache
 * @param {Report} report
 */
async function contentOf({ url, bytes = 0, version, sha256 }, cache, report) {
  const key = `${url}?${version}`;
  const kept = await cache?.match(key);
  const content = await read(kept ?? (await respond(url)), url, bytes, report);
  if (sha256 && !(await isRight(content, sha256))) {
    await cache?.delete(key);
    throw new Refusal(`${nameOf(url)} arrived damaged. Load the model again.`);
  }
  if (cache && !kept) await keep(cache, url, key, content);
  return content;
}

/**
 * @param {string} url
 * @param {RequestInit} [options]
 */
async function respond(url, options) {
  const response = await fetch(url, options).catch(() => {
    throw new Refusal(`${nameOf(url)} could not be fetched. Check the connection and try again.`);
  });
  if (!response.ok)
    throw new Refusal(`${nameOf(url)} could not be fetched: the site answered ${response.status}.`);
  return response;
}

/**
 * Return the body of a response.
 * @param {Response} response
 * @param {string} url
 * @param {number} bytes its size, or 0 if it is unknown
 * @param {Report} report
 */
async function read({ headers, body }, url, bytes, report) {
  // With an encoding, the declared length is that of the encoded body.
  const declared = headers.has("content-encoding") ? 0 : Number(headers.get("content-length"));
  let done = 0;
  const counter = new TransformStream({
    transform(chunk, controller) {
      done += chunk.length;
      report({ done, total: Math.max(done, bytes || declared) });
      controller.enqueue(chunk);
    },
  });
  try {
    return new Uint8Array(await new Response(body?.pipeThrough(counter)).arrayBuffer());
  } catch (error) {
    if (error instanceof RangeError) throw error;
    throw new Refusal(`${nameOf(url)} arrived only in part. Check the connection and try again.`);
  }
}

/** Return whether a content has this SHA-256. Browsers can compute it on secure pages only. */
async function isRight(/** @type {Uint8Array<ArrayBuffer>} */ content, /** @type {string} */ sha256) {
  if (!crypto.subtle) return true;
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", content));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("") === sha256;
}

/**
 * Put a file into the cache in place of its other versions. Without room for it, it will be fetched again.
 * @param {Cache} cache
 * @param {string} url
 * @param {string} key
 * @param {Uint8Array<ArrayBuffer>} content
 */
async function keep(cache, url, key, content) {
  try {
    for (const { url: other } of await cache.keys())
      if (other.split("?")[0] === url && other !== key) await cache.delete(other);
    const headers = { "content-length": `${content.length}` }; // for the progress of the next load
    await cache.put(key, new Response(content, { headers }));
  } catch (error) {
    console.warn(error);
  }
}

/** @param {string} url */
const nameOf = (url) => url.slice(url.lastIndexOf("/") + 1);
