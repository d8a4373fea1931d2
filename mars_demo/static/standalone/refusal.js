// The check of a record on pages without a server: what core/trace.py checks, by its JSON schemas.

/** @typedef {any} Schema */

/** @type {Record<string, (value: any) => boolean>} */
const TYPES = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  string: (value) => typeof value === "string",
  number: (value) => typeof value === "number",
  integer: Number.isInteger,
  boolean: (value) => typeof value === "boolean",
  null: (value) => value === null,
};
const own = (/** @type {object} */ object, /** @type {string} */ key) => Object.hasOwn(object, key);
const length = (/** @type {any} */ value) => (typeof value === "string" ? [...value] : value).length;

/**
 * Return what is wrong with a value; "" if nothing is.
 * @param {any} value
 * @param {Schema} schema
 * @param {Schema} defs the schemas that it refers to
 * @param {string} place
 * @returns {string}
 */
function problem(value, schema, defs, place) {
  if (schema.$ref) return problem(value, defs[schema.$ref.split("/").at(-1)], defs, place);
  if (schema.anyOf) {
    const problems = schema.anyOf.map((/** @type {Schema} */ one) => problem(value, one, defs, place));
    return problems.includes("") ? "" : problems[0];
  }
  if ("const" in schema)
    // as in Python, 1 counts as true
    return [schema.const, Number(schema.const)].includes(value) ? "" : `${place} is wrong`;
  if (!TYPES[schema.type](value)) return `${place} must be of the type ${schema.type}`;
  const most = schema.maxLength ?? schema.maxItems ?? Infinity;
  if (schema.type === "object") return ofObject(value, schema, defs, place);
  if (typeof value === "number") return ofNumber(value, schema) ? "" : `${place} is out of range`;
  if (typeof value === "string" && schema.enum && !schema.enum.includes(value))
    return `${place} must be one of ${schema.enum.join(", ")}`;
  if (typeof value === "boolean" || value === null) return "";
  if (length(value) > most || length(value) < (schema.minItems ?? 0))
    return `${place} is too long or too short`;
  return typeof value === "string" ? "" : ofArray(value, schema, defs, place);
}

/** @param {number} value @param {Schema} schema */
const ofNumber = (value, schema) =>
  value >= (schema.minimum ?? -Infinity) &&
  value <= (schema.maximum ?? Infinity) &&
  value < (schema.exclusiveMaximum ?? Infinity);

/** @param {any[]} value @param {Schema} schema @param {Schema} defs @param {string} place */
function ofArray(value, schema, defs, place) {
  for (const [index, one] of value.entries()) {
    const found = problem(one, schema.prefixItems?.[index] ?? schema.items, defs, `${place}[${index}]`);
    if (found) return found;
  }
  return "";
}

/** @param {object} value @param {Schema} schema @param {Schema} defs @param {string} place */
function ofObject(value, schema, defs, place) {
  const dot = place && `${place}.`;
  for (const name of schema.required ?? []) if (!own(value, name)) return `${dot}${name} is missing`;
  for (const [name, one] of Object.entries(value)) {
    if (!own(schema.properties, name)) return `${dot}${name.slice(0, 40)} is an unknown field`;
    const found = problem(one, schema.properties[name], defs, `${dot}${name}`);
    if (found) return found;
  }
  return "";
}

/** @param {string} text @param {Schema} rules */
function read(text, { kinds, longest }) {
  if (text.length > longest) throw new Error(`a line has at most ${longest} characters`);
  const line = parsed(text);
  const kind = TYPES.object(line) && Object.keys(kinds).find((name) => own(line, name));
  if (!kind) throw new Error("it is neither the settings, a forward nor the end of a run");
  const found = problem(line, kinds[kind], kinds[kind].$defs, "");
  if (found) throw new Error(found);
  if (kind === "pass" && line.accepted > line.slots.length)
    throw new Error("accepted is larger than the number of its slots");
  const [drafts, verified] = [line.drafts ?? -1, line.verified ?? -1];
  if (kind === "pass" && (drafts < 0 !== verified < 0 || verified > drafts))
    throw new Error("verified must count some of its drafts");
  return { kind, line };
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("it is not JSON");
  }
}

/**
 * Return the reason why the stage cannot draw a record; "" if it can.
 * @param {string} text
 * @param {Schema} rules what `trace.rules` returns
 */
export function refusal(text, rules) {
  let [slots, runs, number] = [0, 0, 0];
  let forwards = false;
  try {
    for (const one of text.split("\n")) {
      number += 1;
      if (!one.trim()) continue;
      if (number > rules.lines) throw new Error(`a record has at most ${rules.lines} lines`);
      const { kind, line } = read(one, rules);
      runs += Number(kind === "run");
      slots += line.slots?.length ?? 0;
      forwards ||= kind === "pass";
      if (slots > rules.slots)
        throw new Error(`the forwards of a record have at most ${rules.slots} slots`);
      if (!runs && kind !== "recording") throw new Error("a record begins with the settings of a run");
    }
  } catch (/** @type {any} */ error) {
    return `${rules.no_record}: line ${number}, ${error.message}.`;
  }
  return forwards ? "" : "This is not the record of a run: it has no forward.";
}
