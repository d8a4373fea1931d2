// What the lines of a run's record may hold: the table of decoding/record_schema.py, which Python hands over, and the
// check of a line against it, as there. Only own keys count: a record may come from anywhere.

import { constants } from "../component.js";

const lines = constants.record.schema;

/** Which kind of line a parsed line is. Throws what is wrong with its field. */
export function kindOf(record) {
  const kind = isObject(record) && Object.keys(lines).find((name) => Object.hasOwn(record, name));
  if (!kind) throw new Error("it is neither settings nor forward nor end of a run");
  const wrong = fault(record, lines[kind], "");
  if (wrong) throw new Error(wrong);
  if (kind === "pass" && record.accepted > record.slots.length) throw new Error("accepted is larger than the number of its slots");
  return kind;
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** What is wrong with a value, in words; null if nothing is. */
function fault(value, schema, at) {
  if (!isPlain(value, schema)) return `${at || "the line"} must be ${schema.description}`;
  if (isObject(value)) return objectFault(value, schema, at ? `${at}.` : "");
  if (!Array.isArray(value)) return null;
  for (let index = 0; index < value.length; index++) {
    const found = fault(value[index], schema.items ?? schema.prefixItems[index], `${at}[${index}]`);
    if (found) return found;
  }
  return null;
}

/** Whether a value has the schema's type and size, whatever is in it. */
function isPlain(value, { enum: values, type, minimum, maximum, maxLength, minItems = 0, maxItems }) {
  if (values) return values.includes(value);
  const [kind, orNull] = [type].flat();
  if (value === null) return Boolean(orNull);
  if (kind === "integer") return Number.isInteger(value) && value >= minimum && value <= maximum;
  if (kind === "number") return typeof value === "number" && value >= minimum && value <= maximum;
  if (kind === "string") return typeof value === "string" && isShort(value, maxLength) && value.isWellFormed();
  if (kind === "array") return Array.isArray(value) && value.length >= minItems && value.length <= maxItems;
  return kind === "object" ? isObject(value) : typeof value === kind;
}

/** In characters, of which some are two units long. */
const isShort = (text, most) => text.length <= most || (text.length <= 2 * most && [...text].length <= most);

function objectFault(value, { properties, required, dependentRequired = {}, oneOf = [] }, start) {
  const has = (name) => Object.hasOwn(value, name);
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(properties, name));
  if (unknown !== undefined) return `${start}${quoted(unknown)} is no field that it may have`;
  const also = Object.entries(dependentRequired).flatMap(([name, others]) => (has(name) ? others : []));
  const missing = [...required, ...also].find((name) => !has(name));
  if (missing) return `${start}${missing} is missing`;
  const choices = oneOf.map((each) => each.required[0]);
  if (choices.length && choices.filter(has).length !== 1) return `${start}${choices[0]} is missing`;
  for (const [name, one] of Object.entries(value)) {
    const found = fault(one, properties[name], start + name);
    if (found) return found;
  }
  return null;
}

/** The name of a field that nobody knows, of which as much as a sentence bears. */
const quoted = (name) => `“${[...name.toWellFormed()].slice(0, 40).join("")}”`;
