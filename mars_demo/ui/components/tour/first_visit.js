// Whether this is a first visit, which the tour comes to by itself.

const KEY = "mars-demo-tour";

/** Storage may be blocked; then the tour is only remembered as long as the page is open. */
function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

export function rememberTour() {
  try {
    localStorage.setItem(KEY, "seen");
  } catch {
    // It comes again at the next visit.
  }
}

/** An address that names something opens that. Names with two underscores are Gradio's and the hub's. */
const namesSomething = () => [...new URLSearchParams(location.search).keys()].some((key) => !key.startsWith("__"));

/** In somebody's page. The hub shows every Space in a frame, which is a visit like any other. */
function embedded() {
  const host = location.ancestorOrigins?.[0] ?? document.referrer;
  return parent !== window && !/^https:\/\/huggingface\.co(\/|$)/.test(host);
}

export const firstVisit = () => !namesSomething() && !embedded() && stored() === null;
