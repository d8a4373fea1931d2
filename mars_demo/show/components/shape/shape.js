// The field list of a JSON answer, and the sentence about an invalid grammar.
//
// `props.value` is JSON: the `shape` and the `grammar` of the answer and its `problem`. When a visitor changes the
// fields, or chooses another shape, the script writes the `grammar` and says so with the event `written`.

import { element, props, trigger, watch } from "../component.js";
import { find, findAll, make, say, set } from "../dom.js";
import { fieldsOf, schemaOf, TYPES } from "./schema.js";

/** What a visitor finds in a shape at first, and later what they left there. @type {Record<string, string>} */
const texts = {
  json: schemaOf([
    { name: "name", type: "text" },
    { name: "count", type: "whole number" },
  ]),
  choice: "yes\nno",
  regex: "[A-Z][a-z]+, \\d{1,2} [A-Z][a-z]+ \\d{4}",
  lark: 'start: item (", " item)*\nitem: /[a-z]+/',
};
const kindOf = (/** @type {string} */ shape) => (shape === "compact" ? "json" : shape);

let last = { kind: "", grammar: "" }; // of the last shape other than any text

function update() {
  if (!props.value) return;
  const { shape, grammar, problem } = JSON.parse(props.value);
  const kind = kindOf(shape);
  if (kind in texts) {
    const isChosen = kind !== last.kind && grammar === last.grammar;
    if (isChosen && grammar !== texts[kind]) return write(kind, texts[kind]);
    texts[kind] = grammar;
    last = { kind, grammar };
  }
  const fields = kind === "json" ? fieldsOf(grammar) : null;
  find("fieldset").hidden = !fields;
  find(".other").hidden = kind !== "json" || Boolean(fields || problem);
  find(".problem").hidden = !problem;
  say(find(".problem"), problem);
  if (fields && !find("fieldset").contains(document.activeElement)) drawRows(fields);
}

/** Write the grammar of the shape. */
function write(/** @type {string} */ kind, /** @type {string} */ grammar) {
  last = { kind, grammar };
  props.value = JSON.stringify({ ...JSON.parse(props.value), grammar, problem: "" });
  trigger("written");
}

// ------------------------------------------------------------------------------------------- the rows

function drawRows(/** @type {import("./schema.js").Field[]} */ fields) {
  find("ol").replaceChildren(...fields.map(rowOf));
}

/** @param {import("./schema.js").Field} field */
function rowOf({ name, type }) {
  const row = make("li", "");
  const input = Object.assign(make("input", ""), { value: name });
  const select = make("select", "");
  select.append(...Object.keys(TYPES).map((key) => new Option(key, key, false, key === type)));
  const button = make("button", "", "×");
  set(input, { "aria-label": "Name of the field", maxlength: 60 });
  set(select, { "aria-label": "Type of the field" });
  set(button, { type: "button", "aria-label": "Remove the field" });
  button.addEventListener("click", () => {
    row.remove();
    writeRows();
  });
  row.append(input, select, button);
  return row;
}

function writeRows() {
  const rows = findAll("li").map((row) => ({
    name: find("input", row).value,
    type: find("select", row).value,
  }));
  write("json", schemaOf(rows));
}

element.addEventListener("input", writeRows);
find(".add").addEventListener("click", () => {
  find("ol").append(rowOf({ name: `field ${findAll("li").length + 1}`, type: "text" }));
  find("li:last-child input").select();
  writeRows();
});
watch("value", update);
update();
