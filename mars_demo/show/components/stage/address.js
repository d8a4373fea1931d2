// A record at an address: of this site, or https. The browser fetches it, without cookies.

import { constants } from "../component.js";

/**
 * Return the text at an address.
 * @param {string} address
 */
export async function fetchRecord(address) {
  const response = await answerOf(urlOf(address));
  urlOf(response.url); // also after redirects
  const { host } = new URL(response.url);
  if (!response.ok) throw new Error(`${host} answered ${response.status} instead of a record.`);
  const [parts, decoder] = [/** @type {string[]} */ ([]), new TextDecoder()];
  const reader = /** @type {ReadableStream} */ (response.body).getReader();
  for (let size = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return parts.join("");
    size += value.length;
    if (size > constants.mebibytes * 2 ** 20) {
      reader.cancel();
      throw new Error(`The record at ${host} is too large: it has at most ${constants.mebibytes} MiB.`);
    }
    parts.push(decoder.decode(value, { stream: true }));
  }
}

/** @param {string} address */
function urlOf(address) {
  const url = URL.canParse(address, location.href) ? new URL(address, location.href) : null;
  if (!url || (url.protocol !== "https:" && (url.origin !== location.origin || url.protocol === "file:")))
    throw new Error(
      "A record's address begins with https:// or is on this site; pages on a disk have none.",
    );
  return url;
}

/** @param {URL} url */
async function answerOf(url) {
  try {
    return await fetch(url, { credentials: "omit", referrerPolicy: "no-referrer" });
  } catch {
    throw new Error(`${url.host} sent no record: it is unreachable, or lets no other site read its files.`);
  }
}
