const FIXTURE = new URL("./component.js", import.meta.url).href;

/** Resolve component.js to the fixture. */
export async function resolve(specifier, context, nextResolve) {
  return specifier.endsWith("/component.js")
    ? { url: FIXTURE, shortCircuit: true }
    : nextResolve(specifier, context);
}
