// Forwards of layouts against a KV cache with ONNX Runtime.

/**
 * The content of decoder.json (see mars_demo/static/onnx_model.py).
 * @typedef {object} Description
 * @property {string} name
 * @property {number} layers
 * @property {number} heads of keys and values
 * @property {number} width of a head
 * @property {number} context positions
 * @property {number} mask_id
 * @property {number | null} block_size
 * @property {number} window the most slots of a forward
 * @property {number[]} end_ids
 * @property {string[]} modes
 * @property {boolean} raw whether there is no chat template
 * @property {string} before the template before the prompt
 * @property {string} after the template after the prompt
 * @property {string[]} special names of special tokens
 * @property {string} dtype
 * @property {Record<string, { bytes: number, sha256: string }>} files
 */

/**
 * @typedef {import("./decoding.js").Layout} Layout
 * @typedef {typeof import("onnxruntime-web")} Ort
 * @typedef {import("onnxruntime-web").InferenceSession} Session
 * @typedef {import("onnxruntime-web").Tensor} Tensor
 */

const FIRST_ROOM = 512; // positions of a new text's KV cache; it doubles when it is full
const COLUMNS = 16; // of a block in sums over columns, as in models/runtime/attention.py
const UNSEEN = -1e30; // attention bias of masked positions
// Positions of a prompt that are computed at once: attention needs memory for each pair of positions.
const CHUNK = 256;

/**
 * Return a session for the content of model.onnx.
 * @param {Ort} ort
 * @param {Uint8Array} model
 * @param {{ path: string, data: Uint8Array }[]} externalData the files with its weights, by name
 */
export const openSession = (ort, model, externalData) =>
  ort.InferenceSession.create(model, { executionProviders: ["wasm"], externalData, logSeverityLevel: 3 });

/** A decoder of one text on one model, which runs layouts and commits positions to the KV cache. */
export class Engine {
  length = 0; // committed positions; later ones are overwritten
  /** @type {Record<string, Cache>} */
  #caches = {};

  /**
   * @param {Ort} ort
   * @param {Session} session
   * @param {Description} description
   */
  constructor(ort, session, description) {
    this.ort = ort;
    this.session = session;
    for (let layer = 0; layer < description.layers; layer++)
      for (const kind of ["key", "value"])
        this.#caches[`${kind}.${layer}`] = new Cache(description.heads, description.width);
  }

  /** Return the logits [n - first, vocabulary] of the layout's n positions from `first` on. */
  async forward(/** @type {Layout} */ layout, /** @type {number} */ first) {
    let start = 0;
    for (; first - start >= CHUNK; start += CHUNK)
      await this.#run(layout, start, start + CHUNK, start + CHUNK - 1);
    return this.#run(layout, start, layout.ids.length, first);
  }

  /** Keep the first `count` positions of the last forward. */
  commit(/** @type {number} */ count) {
    this.length += count;
  }

  /**
   * Compute the positions `start` to `end` of a layout; return the logits from `first` on.
   * @param {Layout} layout
   * @param {number} start
   * @param {number} end
   * @param {number} first
   * @returns {Promise<Float32Array>}
   */
  async #run({ ids, positions, past, visible }, start, end, first) {
    const { Tensor } = this.ort;
    const [{ heads, width }] = Object.values(this.#caches);
    const [count, cached] = [end - start, past + start];
    const rest = -(cached + count) & (COLUMNS - 1);
    const total = cached + count + rest;
    const rows = Array.from({ length: end - first }, (_, index) => first - start + index);
    /** @type {Record<string, Tensor>} */
    const inputs = {
      ids: longs(Tensor, [1, count], ids.slice(start, end)),
      positions: longs(Tensor, [1, count], positions.slice(start, end)),
      bias: new Tensor("float32", biasOf(visible.slice(start, end), total), [count, total]),
      rest: new Tensor("float32", new Float32Array(heads * rest * width), [1, heads, rest, width]),
      rows: longs(Tensor, [rows.length], rows),
    };
    for (const [name, cache] of Object.entries(this.#caches))
      inputs[name] = new Tensor("float32", cache.first(cached), [1, cache.heads, cached, cache.width]);
    const { logits, computed } = await this.session.run(inputs);
    const added = /** @type {Float32Array} */ (computed.data);
    const caches = Object.values(this.#caches);
    const size = added.length / caches.length;
    for (const [index, cache] of caches.entries())
      cache.put(cached, added.subarray(index * size, (index + 1) * size));
    return /** @type {Float32Array} */ (logits.data);
  }
}

/** The keys or the values of a layer, by head and position. */
class Cache {
  #room = 0; // positions
  #data = new Float32Array();

  /**
   * @param {number} heads
   * @param {number} width of a head
   */
  constructor(heads, width) {
    this.heads = heads;
    this.width = width;
  }

  /** Return the first positions of all heads. */
  first(/** @type {number} */ positions) {
    return this.#copy(positions, positions);
  }

  /** Put new positions after the first ones. */
  put(/** @type {number} */ start, /** @type {Float32Array} */ computed) {
    const size = computed.length / this.heads;
    const length = start + size / this.width;
    if (length > this.#room) {
      const room = Math.max(length, FIRST_ROOM, 2 * this.#room);
      [this.#data, this.#room] = [this.#copy(start, room), room];
    }
    for (let head = 0; head < this.heads; head++)
      this.#data.set(
        computed.subarray(head * size, (head + 1) * size),
        (head * this.#room + start) * this.width,
      );
  }

  /** Return a copy of the first positions with room for others. */
  #copy(/** @type {number} */ positions, /** @type {number} */ room) {
    const copy = new Float32Array(this.heads * room * this.width);
    for (let head = 0; head < this.heads; head++) {
      const start = head * this.#room * this.width;
      copy.set(this.#data.subarray(start, start + positions * this.width), head * room * this.width);
    }
    return copy;
  }
}

/** Return the attention bias [positions, total]: 0 for the leading columns that each position attends to. */
function biasOf(/** @type {number[]} */ visible, /** @type {number} */ total) {
  const bias = new Float32Array(visible.length * total);
  for (const [row, columns] of visible.entries())
    bias.fill(UNSEEN, row * total + columns, (row + 1) * total);
  return bias;
}

/**
 * @param {Ort["Tensor"]} Tensor
 * @param {number[]} shape
 * @param {number[]} numbers
 */
const longs = (Tensor, shape, numbers) => new Tensor("int64", BigInt64Array.from(numbers, BigInt), shape);
