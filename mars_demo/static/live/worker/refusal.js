// Errors as sentences for the visitor.

/** An error whose message is a sentence for the visitor. */
export class Refusal extends Error {}

const MEMORY = "There is not enough memory for this. Use a shorter prompt or a smaller model.";
const UNSUPPORTED = "This browser cannot run WebAssembly with SIMD, which decoding needs. Try a newer one.";
const UNEXPECTED =
  "This could not be done because of an unexpected error. The browser's console has the details.";

// Parts of the messages of browsers and of ONNX Runtime, which have no error types for these.
const SENTENCES = /** @type {const} */ ([
  [/alloc|out of memory|\boom\b/i, MEMORY],
  [/webassembly simd is not supported/i, UNSUPPORTED],
]);

/** Return a sentence about any error. */
export function sentenceOf(/** @type {unknown} */ error) {
  if (error instanceof Refusal) return error.message;
  const [, sentence] = SENTENCES.find(([part]) => part.test(String(error))) ?? [];
  return sentence ?? UNEXPECTED;
}
