// A deterministic model of few tokens for the tests, and naive decoders for it: no cache, no layouts.

export const [END, MASK, VOCABULARY] = [1, 2, 32];

/** A number from 0 to 1 that depends on all the given numbers (FNV-1a with a final mix). */
function hashed(...numbers) {
  let hash = 0x811c9dc5;
  for (const number of numbers) hash = Math.imul(hash ^ (number + 1), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  return ((hash ^ (hash >>> 13)) >>> 0) / 2 ** 32;
}

/** Return the token after a text without masks. Texts repeat themselves, with exceptions, until they end. */
export function nextToken(text) {
  const [one, two] = text.slice(-2);
  const chance = hashed(text.length, 7);
  if (chance < 0.01) return END;
  const [seed, tokens] = chance < 0.08 ? [hashed(text.length), VOCABULARY - 3] : [hashed(one % 3, two), 12];
  return 3 + Math.floor(seed * tokens);
}

/**
 * Return the prediction after a text that may end with masks: the token and its probability. After masks it
 * is often the token that the text will have there.
 */
export function predicted(context) {
  const masks = context.length - 1 - context.findLastIndex((token) => token !== MASK);
  const text = context.slice(0, context.length - masks);
  if (text.includes(MASK)) throw new Error("a mask stays in the text");
  const seed = hashed(...text.slice(-4), masks);
  for (let i = 0; i < masks; i++) text.push(nextToken(text));
  const token = masks && seed < 0.2 ? MASK + 1 : nextToken(text);
  return { token, probability: masks ? 0.4 + 0.59 * hashed(seed * 1e6) : 0.9 };
}

/** Return logits with a prediction's probability; the other tokens share the rest. */
export function logitsOf({ token, probability }) {
  const rest = Math.log((1 - probability) / (VOCABULARY - 1));
  const logits = new Float32Array(VOCABULARY).fill(rest + 5);
  logits[token] = Math.log(probability) + 5;
  return logits;
}

/** An engine on this model, which checks that layouts continue the committed positions. */
export class TinyEngine {
  ids = [];
  forwards = 0;

  async forward(layout, first) {
    this.forwards++;
    if (layout.past !== this.ids.length) throw new Error("the layout does not continue the text");
    this.computed = layout.ids;
    const columns = [...this.ids, ...layout.ids];
    const rows = layout.visible.slice(first).map((count) => predicted(columns.slice(0, count)));
    return Float32Array.from(rows.flatMap((prediction) => [...logitsOf(prediction)]));
  }

  commit(count) {
    this.ids.push(...this.computed.slice(0, count));
  }
}

/** Texts of tokens: a letter each. */
export const letters = {
  encodePrompt: (prompt) => Array.from(prompt, (letter) => 3 + (letter.codePointAt(0) % (VOCABULARY - 3))),
  decode: (ids) =>
    ids
      .filter((id) => id !== END)
      .map(nameOf)
      .join(""),
  name: nameOf,
};

function nameOf(id) {
  return id === END ? "<end>" : String.fromCodePoint(64 + id);
}

export const description = {
  name: "letters",
  context: 200,
  mask_id: MASK,
  block_size: 4,
  window: 5,
  end_ids: [END],
  modes: ["ar", "mars", "lossless"],
  raw: false,
  dtype: "float32",
};

// ---------------------------------------------------------------------------------- naive decoders

/** Return slots 1 to masks + 1 of a window after `text`. */
const windowAfter = (text, masks) =>
  Array.from({ length: masks + 1 }, (_, count) => ({
    ...predicted([...text, ...Array(count).fill(MASK)]),
    source: count ? "mask" : "model",
  }));

const tokensOf = (slots) => slots.map(({ token }) => token);

/** Return the passes of `nextStep(text, room, added)` up to an end token or `limit` tokens. */
function answer(prompt, limit, nextStep) {
  let [text, room, added] = [prompt, limit, prompt.length];
  const passes = [];
  while (room && !(passes.length && text.at(-1) === END)) {
    const { slots, accepted, ...fields } = nextStep(text, room, added);
    const ids = tokensOf(slots);
    const end = ids.slice(0, Math.min(accepted, room)).indexOf(END);
    const joined = end < 0 ? Math.min(accepted, room) : end + 1;
    passes.push({ ids, sources: slots.map(({ source }) => source), accepted: joined, ...fields });
    added = joined;
    text = [...text, ...ids.slice(0, joined)];
    room -= joined;
  }
  return passes;
}

/** Decode as in section 3.3 of the paper. */
export const windowPasses = (prompt, slots, tau, limit) =>
  answer(prompt, limit, (text, room, added) => {
    const window = windowAfter(text, tau < 1 ? Math.min(slots, room) - 1 : 0);
    const rejected = window.findIndex(({ probability }, index) => index > 0 && probability < tau);
    const positions = added + window.length - 1;
    return { slots: window, accepted: rejected < 0 ? window.length : rejected, positions };
  });

/** Draft and verify, with masks after all drafts only. */
export function losslessPasses(prompt, slots, limit) {
  let [drafts, match] = [[], 0];
  const history = []; // [length of the match, whether the token was accepted] of n-gram drafts
  return answer(prompt, limit, (text, room) => {
    const sent = drafts;
    const own = sent.map((_, count) => predicted([...text, ...tokensOf(sent.slice(0, count))]));
    own.push(predicted([...text, ...tokensOf(sent)]));
    const wrong = sent.findIndex(({ token }, index) => token !== own[index].token);
    const verified = wrong < 0 ? sent.length : wrong;
    if (match) {
      for (let i = 0; i < verified; i++) history.push([match, true]);
      if (verified < sent.length) history.push([match, false]);
    }
    const masks = Math.max(0, Math.min(slots, room) - 1);
    const accepted = own
      .slice(0, verified + 1)
      .map((slot, place) => ({ ...slot, source: place < verified ? sent[place].source : "model" }));
    const masked = verified < sent.length ? [] : windowAfter([...text, ...tokensOf(sent)], masks).slice(1);
    const copied = copy([...text, ...tokensOf(accepted)], history);
    const isCopied = expected(copied.slots) > expected(masked);
    match = isCopied ? copied.match : 0;
    drafts = (isCopied ? copied.slots : masked).slice(0, Math.max(0, room - verified - 2));
    return {
      slots: [...accepted, ...drafts],
      accepted: verified + 1,
      positions: (text === prompt ? prompt.length : 1) + sent.length + masks,
      drafts: sent.length,
      verified,
      groups: masks ? 1 : 0,
    };
  });
}

/** Return the expected accepted tokens of a draft. */
const expected = (slots) =>
  slots.reduce((sum, _, last) => {
    const chances = slots.slice(0, last + 1).map(({ probability }) => probability);
    return sum + chances.reduce((one, other) => one * other);
  }, 0);

/** Return the length of the longest repeated suffix of 3 to 8 tokens, and what followed it, at most 16 tokens. */
function copy(text, history) {
  for (let match = 8; match >= 3; match--)
    for (let place = text.length - 1; place >= match; place--) {
      if (text.slice(place - match, place).join() !== text.slice(-match).join()) continue;
      const outcomes = history.filter(([length]) => length === match);
      const wins = outcomes.filter(([, accepted]) => accepted).length;
      const probability = (match + wins) / (match + 2 + outcomes.length);
      const [long, slots] = [[...text], []];
      while (slots.length < 16 && probability ** (slots.length + 1) >= 0.25) {
        slots.push({ token: long[place + slots.length], probability, source: "copy" });
        long.push(slots.at(-1).token);
      }
      return { match, slots };
    }
  return { match: 0, slots: [] };
}
