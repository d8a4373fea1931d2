// @ts-check
// Forwards of layouts against a KV cache with ONNX Runtime.

/**
 * The content of decoder.json (see mars_demo/export/onnx_model.py).
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
const UNSEEN = -1e30; // attention bias of masked positions
// Positions of a prompt that are computed at once: attention needs memory for each pair of positions.
const CHUNK = 256;

/**
 * Return a session for the content of model.onnx.
 * @param {Ort} ort
 * @param {Uint8Array} model
 */
export const openSession = (ort, model) =>
  ort.InferenceSession.create(model, {
    executionProviders: ["wasm"],
    logSeverityLevel: 3,
    extra: { session: { disable_quant_qdq: "1" } }, // weights are dequantized once, not in every forward
  });

/** A decoder of one text on one model, which runs layouts and commits positions to the KV cache. */
export class Engine {
  length = 0; // committed positions; later ones are overwritten
  /** @type {Record<string, Tensor>} */
  #stores = {};
  #room = 0;

  /**
   * @param {Ort} ort
   * @param {Session} session
   * @param {Description} description
   */
  constructor(ort, session, description) {
    this.ort = ort;
    this.session = session;
    this.description = description;
    this.names = Array.from({ length: description.layers }, (_, i) => [`key.${i}`, `value.${i}`]).flat();
  }

  /**
   * Return the logits [n - first, vocabulary] of the layout's n positions from `first` on.
   * @param {Layout} layout
   * @param {number} first
   */
  async forward(layout, first) {
    let start = 0;
    for (; first - start >= CHUNK; start += CHUNK)
      await this.#run(layout, start, start + CHUNK, start + CHUNK - 1);
    return this.#run(layout, start, layout.ids.length, first);
  }

  /**
   * Keep the first `count` positions of the last forward.
   * @param {number} count
   */
  commit(count) {
    this.length += count;
  }

  /** Free the KV cache. */
  dispose() {
    for (const store of Object.values(this.#stores)) store.dispose();
    this.#stores = {};
    this.#room = 0;
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
    // Attention adds in another order for the last one of an odd number of positions, so it is repeated.
    const places = Array.from({ length: end - start }, (_, index) => start + index);
    if (places.length % 2) places.push(end - 1);
    const taken = (/** @type {number[]} */ values) => places.map((place) => values[place]);
    const [count, total] = [places.length, past + start + places.length];
    const rows = Array.from({ length: end - first }, (_, index) => first - start + index);
    this.#grow(total);
    const { logits, ...stores } = await this.session.run({
      ids: longs(Tensor, [1, count], taken(ids)),
      positions: longs(Tensor, [1, count], taken(positions)),
      last: new Tensor("int32", Int32Array.of(total - 1), [1]),
      count: new Tensor("int32", Int32Array.of(total), []),
      bias: new Tensor("float32", biasOf(taken(visible), total), [1, 1, count, total]),
      rows: longs(Tensor, [rows.length], rows),
      ...this.#stores,
    });
    for (const name of this.names) {
      this.#stores[name].dispose();
      this.#stores[name] = stores[`${name}.out`];
    }
    return /** @type {Float32Array} */ (logits.data);
  }

  /**
   * Make room for `length` positions; masks may go beyond the context.
   * @param {number} length
   */
  #grow(length) {
    if (length <= this.#room) return;
    const { heads, width, context } = this.description;
    const room = Math.max(length, Math.min(context, Math.max(FIRST_ROOM, 2 * this.#room)));
    for (const name of this.names) {
      const store = new Float32Array(heads * room * width);
      const data = /** @type {Float32Array | undefined} */ (this.#stores[name]?.data);
      const size = this.#room * width; // of a head
      for (let head = 0; data && head < heads; head++)
        store.set(data.subarray(head * size, (head + 1) * size), head * room * width);
      this.#stores[name]?.dispose();
      this.#stores[name] = new this.ort.Tensor("float32", store, [1, heads, room, width]);
    }
    this.#room = room;
  }
}

/**
 * Return the attention bias [positions, total]: 0 for the leading columns that each position attends to.
 * @param {number[]} visible
 * @param {number} total
 */
function biasOf(visible, total) {
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
