// The page of a record at an address: `?run=ADDRESS`, or typed by the reader.

import { queryValue } from "../../show/url.js";
import { begin } from "./figures.js";
import { refusal } from "./refusal.js";

/** @type {(selector: string) => any} */
const page = (selector) => document.querySelector(selector);

begin({ refusal: async (text) => refusal(text, JSON.parse(page("#rules").textContent)) });
addEventListener("DOMContentLoaded", () => {
  const [form, address] = [page("form"), queryValue("run")];
  form.addEventListener("submit", (/** @type {Event} */ event) => {
    event.preventDefault();
    location.search = new URLSearchParams({ run: form.elements.run.value }).toString();
  });
  form.elements.run.value = address ?? "";
  if (address) page(".stage").dispatchEvent(new CustomEvent("address", { detail: address }));
});
