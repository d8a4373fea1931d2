// The script of static pages without a script of their own.

import { queryValue } from "../../show/url.js";
import { begin } from "./figures.js";

begin();
// A Space opens its first page with the query: a record's address belongs to the page that shows records.
addEventListener("DOMContentLoaded", () => {
  const link = /** @type {HTMLAnchorElement | null} */ (document.querySelector("a.opens-records"));
  if (link && queryValue("run")) location.replace(link.href + location.search);
});
