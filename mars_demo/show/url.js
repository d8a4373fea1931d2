// The page's URL: the open tab, the settings of its controls, the recorded run and the forward on the stage.
// Only this module reads and writes it. The server reads it too, when a page arrives.

const SOON = 250; // ms after the last change of something that may go on changing
// Of a race, as in race_settings.py.
const SETTINGS =
  "prompt model mode tau criterion window max_new_tokens temperature top_p seed shape grammar".split(" ");
const ON_STAGE = ["run", "lane", "pass", "beside"]; // a recorded run, and what is shown of it

const query = () => new URLSearchParams(location.search);

/** @param {string} key */
export const queryValue = (key) => query().get(key);

/**
 * Set entries of the query; null deletes a key.
 * @param {Record<string, string | null>} entries
 */
export function setQuery(entries) {
  const changed = query();
  for (const [key, value] of Object.entries(entries))
    if (value === null) changed.delete(key);
    else changed.set(key, value);
  const text = changed.toString();
  if (text !== location.search.slice(1))
    history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
}

/** The keys whose values named nothing on this page. @type {string[]} */
export const unknown = [];

/**
 * Delete names that this page does not know, before anything reads them.
 * @param {Record<string, string[]>} known the names by key
 */
export function forgetUnknown(known) {
  for (const [key, names] of Object.entries(known)) {
    const value = queryValue(key) ?? "";
    const values = (key === "mode" ? value.split(",") : [value]).filter(Boolean);
    const kept = values.filter((value) => names.includes(value) || (key === "run" && isAddress(value)));
    if (kept.length === values.length) continue;
    unknown.push(key);
    setQuery({ ...(key === "run" && without(ON_STAGE)), [key]: kept.join() || null });
  }
}

/**
 * Whether a value of `run` is the address of a record, not the id of a recorded run.
 * @param {string | null | undefined} value
 */
export const isAddress = (value) => /[/:.]/.test(value ?? "");

/** @param {string[]} keys */
const without = (keys) => Object.fromEntries(keys.map((key) => [key, null]));

/** Write soon, unless another write of this name comes before, also from another script of the page. */
function writeSoon(/** @type {string} */ name, /** @type {() => void} */ write) {
  cancel(name);
  const timer = setTimeout(write, SOON);
  document.addEventListener(`mars:url-${name}`, () => clearTimeout(timer), { once: true });
}

/** @param {string} name */
const cancel = (name) => document.dispatchEvent(new Event(`mars:url-${name}`));

// ------------------------------------------------------------------------------------- the stage

/**
 * Return the recorded run that the page opens with: the id or address of the URL or, if the URL has no
 * settings of a race, the `first` one, if any.
 * @param {string[]} ids
 * @param {string | null | undefined} first
 * @returns {string | null | undefined}
 */
export const recordingInUrl = (ids, first) =>
  [...ids, ...[queryValue("run")].filter(isAddress)].find((id) => id === queryValue("run")) ??
  (SETTINGS.every((key) => queryValue(key) === null) ? first : undefined);

/** Return the number of the forward that the URL selects; null if it is missing or invalid. */
export function passInUrl() {
  const number = Number(queryValue("pass"));
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

/** Remove the recorded run and what was shown of it. */
export const deleteRecording = () => setQuery(without(ON_STAGE));

/** Name a recorded run in place of the settings of a race. */
export function nameRecording(/** @type {string} */ id) {
  cancel("race");
  setQuery({ ...without([...ON_STAGE, ...SETTINGS]), run: id });
}

/**
 * Write what the stage shows soon, but not at every frame of a replay.
 * @param {() => Record<string, any> | null} entries null changes nothing
 */
export const writeStage = (entries) => writeSoon("stage", () => setQuery(entries() ?? {}));
export const cancelStage = () => cancel("stage");

/** Write the open tab, unless it is the first one. */
export const writeTab = (/** @type {string} */ name) =>
  setQuery({ tab: name === "race" ? null : name, ...(name !== "learn" && { chapter: null }) });

// -------------------------------------------------------------- the scripts of Gradio's events (page.js)

/**
 * Write the open chapter.
 * @param {string[]} ids of the chapters
 * @param {string} heading with the chapter's number
 */
export const writeChapter = (ids, heading) =>
  setQuery({ tab: "learn", chapter: ids[Number(/\d+/.exec(heading)) - 1] });

/**
 * Write the settings of the Mask tab while it is open, except a sentence that would make the URL too long for
 * some servers.
 */
export function writeMask({ names, longest }, ...values) {
  writeSoon("mask", () => {
    if (queryValue("tab") !== "mask") return;
    const texts = values.map((value) => String(value ?? ""));
    const fits = (text) => new TextEncoder().encode(text).length < longest;
    const entries = names.map((name, index) => [`mask_${name}`, fits(texts[index]) ? texts[index] : null]);
    setQuery(Object.fromEntries(entries));
  });
}

/**
 * What the page knows of races: the prompt, modes, τ and model of each recorded run with its other settings, the
 * `first` run to show or null, the id, shape and grammar of each example by its prompt, the modes in order, the defaults of the other
 * settings, and the longest prompt or grammar in a URL.
 * @type {any}
 */
let races = null;

export const knowRaces = (data) => {
  races = data;
};

const recorded = (/** @type {string | null | undefined} */ id) => races?.runs[id ?? ""];

/** Return the settings of the URL's recorded run, for the controls: no request has to be waited for. */
export const settingsOfRecording = () => recorded(queryValue("run")).flat();

/**
 * Write the settings of the Race tab, after each change of a control and when a race begins (`live`), so that
 * the URL opens the same page. It names a recorded run while the controls have its settings, and the
 * controls otherwise.
 */
export function writeRace(live, ...controls) {
  if (!live) return writeSoon("race", () => writeSettings(false, ...controls));
  cancel("race");
  writeSettings(true, ...controls);
}

function writeSettings(live, prompt, model, modes, tau, watch, ...generation) {
  if (!races || (!live && isAddress(queryValue("run")))) return;
  const named = settingsInUrl([prompt, modes, tau, model], generation);
  const fits = [named.prompt, named.grammar ?? ""].every(isShort);
  const settings = { ...named, ...(!fits && { prompt: null, shape: null, grammar: null }) };
  const run = live ? null : recorded(recordingInUrl(Object.keys(races.runs), races.first));
  const entries = Object.entries(settings);
  const expected = run && settingsInUrl(...run);
  const same = run && entries.every(([key, value]) => expected[key] === value);
  const moved =
    queryValue("run") !== null || entries.some(([key, value]) => ![null, value].includes(queryValue(key)));
  setQuery({
    ...(!same && moved && without(ON_STAGE)),
    ...(same ? without(Object.keys(settings)) : settings),
    watch: watch === races.watch ? null : String(Number(watch)),
  });
}

/** @param {string} text */
const isShort = (text) => new URLSearchParams({ prompt: text }).toString().length <= races.longest;

/** Return the settings of a race as the URL has them; those at their defaults are null. */
function settingsInUrl([prompt, modes, tau, model], generation) {
  const others = Object.entries(races.defaults).map(([name, value], index) => {
    const isDefault = [value, undefined, null, ""].includes(generation[index]);
    return [name, isDefault ? null : String(generation[index])];
  });
  const settings = Object.fromEntries(others);
  if (!settings.shape) settings.grammar = null;
  const { id, ...shape } = races.examples[prompt] ?? {};
  const isExample = id && Object.keys(shape).every((key) => shape[key] === settings[key]);
  if (isExample) settings.shape = settings.grammar = null;
  return {
    prompt: isExample ? id : prompt,
    mode: races.modes.filter((mode) => modes.includes(mode)).join(),
    tau: String(tau),
    ...(model && { model }), // none before the models are known
    ...settings,
  };
}
