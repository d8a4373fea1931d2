import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { fetchFiles, fetchJson } from "../../mars_demo/static/live/worker/files.js";
import { sentenceOf } from "../../mars_demo/static/live/worker/refusal.js";

const LARGE = Buffer.from(Uint8Array.from({ length: 300_000 }, (_, index) => index * index));
const SMALL = Buffer.from('{"name": "small"}');
const pages = {
  "/large": (response) => response.writeHead(200, { "content-length": LARGE.length }).end(LARGE),
  "/small": (response) => response.end(SMALL), // without its length
  "/packed": (response) => response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync(LARGE)),
  "/cut": (response) => {
    response.writeHead(200, { "content-length": LARGE.length });
    response.write(LARGE.subarray(0, 1000), () => response.destroy());
  },
};
const server = createServer(({ url }, response) => (pages[url] ?? missing)(response));
const missing = (response) => response.writeHead(404).end("Not found");
let site = "";

before(async () => {
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  site = `http://127.0.0.1:${server.address().port}`;
});
after(() => {
  server.closeAllConnections();
  server.close();
});

const hashOf = (content) => createHash("sha256").update(content).digest("hex");
const file = (name, content, fields = {}) => ({
  url: `${site}/${name}`,
  version: "1",
  bytes: content.length,
  sha256: hashOf(content),
  ...fields,
});
const fails = (promise, sentence) => assert.rejects(promise, (error) => sentence.test(sentenceOf(error)));

test("files arrive whole, with reports of all bytes", async () => {
  const reports = [];
  const files = [file("large", LARGE), file("small", SMALL, { bytes: undefined, sha256: undefined })];
  const [large, small] = await fetchFiles(files, (report) => reports.push(report));
  assert.deepEqual([Buffer.from(large), Buffer.from(small)], [LARGE, SMALL]);
  const total = LARGE.length + SMALL.length;
  assert.deepEqual(reports.at(-1), { done: total, total });
  assert.ok(reports.length > 2);
  assert.deepEqual(
    reports,
    reports.toSorted((one, other) => one.done - other.done),
  );
  assert.ok(reports.every(({ done, total }) => done <= total && total >= LARGE.length));
  assert.deepEqual(await fetchJson(`${site}/small`), { name: "small" });
});

test("of a compressed file the bytes of its content count", async () => {
  const reports = [];
  const packed = file("packed", LARGE, { bytes: undefined });
  const [content] = await fetchFiles([packed], (report) => reports.push(report));
  assert.deepEqual(Buffer.from(content), LARGE);
  assert.deepEqual(reports.at(-1), { done: LARGE.length, total: LARGE.length });
  assert.ok(reports.every(({ done, total }) => done <= total && total <= LARGE.length));
});

test("failures are sentences with the file's name", async () => {
  const fetched = (...parts) => fetchFiles([file(...parts)], () => {});
  await fails(fetched("large", LARGE, { sha256: hashOf(SMALL) }), /^large arrived damaged\./);
  await fails(fetched("none", LARGE), /^none could not be fetched: the site answered 404\.$/);
  await fails(fetched("cut", LARGE), /^cut arrived only in part\./);
  await fails(
    fetched("none", LARGE, { url: "http://127.0.0.1:1/none" }),
    /^none could not be fetched\. Check/,
  );
  await fails(fetchJson(`${site}/large`), /^large from the site is not JSON\.$/);
});
