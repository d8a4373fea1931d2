// Token ids of prompts and texts of token ids, as in mars_demo/models/chat.py.

/** @typedef {import("./engine.js").Description} Description */
/** @typedef {typeof import("@huggingface/tokenizers").Tokenizer} TokenizerClass */

// The byte-level pattern of GPT-2. The library has it built in, but with JavaScript's white space, which
// differs in U+0085 and U+FEFF; it translates patterns of a tokenizer's file exactly.
const WORDS = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
// The places of users' texts in a template, which are removed from these texts.
const SLOT_MARKS = /[\ue000\ue001]/g;

/** A model's tokenizer. Text from users never becomes a special token. */
export class Tokens {
  /** @type {Map<number, string>} */
  #names = new Map();

  /**
   * @param {TokenizerClass} Tokenizer
   * @param {any} content of tokenizer.json
   * @param {any} config of tokenizer_config.json
   * @param {Description} description
   */
  constructor(Tokenizer, content, config, description) {
    const file = { ...content, pre_tokenizer: withPattern(content.pre_tokenizer) };
    const ordinary = file.added_tokens.filter(
      (/** @type {{ special: boolean }} */ token) => !token.special,
    );
    this.tokenizer = new Tokenizer(file, config);
    this.plain = new Tokenizer({ ...file, added_tokens: ordinary }, config); // knows no special tokens
    this.description = description;
  }

  /**
   * Return the ids of a prompt in the chat template, up to the model's answer. Names of special tokens in it
   * are ordinary text.
   */
  encodePrompt(/** @type {string} */ prompt) {
    const { before, after, raw, special } = this.description;
    if (raw) return this.#plainIds(prompt, true);
    const text = prompt.replaceAll(SLOT_MARKS, "");
    if (!special.some((name) => text.includes(name))) return this.#ids(before + text + after);
    return [...this.#ids(before), ...this.#plainIds(text, false), ...this.#ids(after)];
  }

  /** Return the text of token ids without special tokens. */
  decode(/** @type {number[]} */ ids) {
    return ids.length ? this.tokenizer.decode(ids, { ...AS_IT_IS, skip_special_tokens: true }) : "";
  }

  /** Return the text of a single token, or the name of a special token, from a cache. */
  name(/** @type {number} */ id) {
    const name = this.#names.get(id) ?? this.tokenizer.decode([id], AS_IT_IS);
    this.#names.set(id, name);
    return name;
  }

  /** @param {string} text */
  #ids(text) {
    return this.tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  /**
   * @param {string} text
   * @param {boolean} add_special_tokens whether to add those of a text without a template, such as BOS
   */
  #plainIds(text, add_special_tokens) {
    const { tokens } = this.plain.encode(text, { add_special_tokens });
    // By the whole tokenizer, which has the ids of special tokens too.
    return tokens.map((token) => /** @type {number} */ (this.tokenizer.token_to_id(token)));
  }
}

const AS_IT_IS = { clean_up_tokenization_spaces: false };

/**
 * Return a pre-tokenizer in which byte-level ones have their pattern in a step of its own.
 * @param {any} step
 * @returns {any}
 */
function withPattern(step) {
  if (step?.type === "Sequence") return { ...step, pretokenizers: step.pretokenizers.map(withPattern) };
  if (step?.type !== "ByteLevel" || step.use_regex === false || step.add_prefix_space) return step;
  const split = { type: "Split", pattern: { Regex: WORDS }, behavior: "Isolated", invert: false };
  return { type: "Sequence", pretokenizers: [split, { ...step, use_regex: false }] };
}
