// The JSON schema of a list of fields, and back.

/** @typedef {{ name: string, type: string }} Field */

/** The schemas of a field's value by the name of its type. @type {Record<string, object>} */
export const TYPES = {
  text: { type: "string" },
  "whole number": { type: "integer" },
  number: { type: "number" },
  "yes or no": { type: "boolean" },
  "list of texts": { type: "array", items: { type: "string" } },
};

/**
 * Return the schema of an object with exactly these fields, as a text on one line; fields without a name do not
 * count yet.
 * @param {Field[]} fields
 */
export function schemaOf(fields) {
  const named = fields.filter(({ name }) => name);
  const schema = {
    type: "object",
    properties: Object.fromEntries(named.map(({ name, type }) => [name, TYPES[type]])),
    required: [...new Set(named.map(({ name }) => name))],
    additionalProperties: false,
  };
  return JSON.stringify(schema, null, 1).replaceAll(/\n */g, " ");
}

/**
 * Return the fields of a schema that `schemaOf` could have made, however it is spaced; null for another one.
 * @param {string} text
 * @returns {Field[] | null}
 */
export function fieldsOf(text) {
  try {
    const schema = JSON.parse(text);
    const fields = Object.entries(schema.properties).map(([name, value]) => ({
      name,
      type: typeOf(value),
    }));
    return isSame(schema, JSON.parse(schemaOf(fields))) ? fields : null;
  } catch {
    return null;
  }
}

const typeOf = (/** @type {unknown} */ value) =>
  Object.keys(TYPES).find((type) => isSame(TYPES[type], value)) ?? "";

const isSame = (/** @type {unknown} */ a, /** @type {unknown} */ b) =>
  JSON.stringify(a) === JSON.stringify(b);
