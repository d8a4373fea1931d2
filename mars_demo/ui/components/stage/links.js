// The page's URL: the recorded run and the selected forward, beside the settings of a race.

import { constants } from "../component.js";
import { queryValue, setQuery } from "../url.js";
import { hasQueuedSteps, written } from "./branches.js";
import { focused, stage, view } from "./state.js";

/** The forward that the URL requests, until it is shown. */
export const requested = { lane: null, pass: null };
if (constants.shelf)
  Object.assign(requested, { lane: queryValue("lane"), pass: numberOf(queryValue("pass")) });

/** Return the number of a forward; null if it is missing or invalid. */
function numberOf(text) {
  const number = Number(text);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

const without = (keys) => Object.fromEntries(keys.map((key) => [key, null]));
export const deleteFromUrl = (keys) => setQuery(without(keys));
export const hasPrompt = () => queryValue("prompt") !== null;

/** Return the recorded run of the URL; without settings and a valid name, the first one. */
export function recordingInUrl() {
  const ids = constants.recordings.map(({ id }) => id);
  const empty = constants.settings.every((key) => queryValue(key) === null);
  return ids.find((id) => id === queryValue("run")) ?? (empty ? ids[0] : null);
}

/** Whether the URL has branches. */
export const hasBranches = () => constants.shelf && queryValue("branch") !== null;

/** Return the recorded run that the URL puts beside its own. */
export const besideInUrl = () =>
  constants.recordings.map(({ id }) => id).find((id) => id === queryValue("beside"));

/** Name the chosen recorded run in the URL, in place of the settings of a race. */
export function nameRecording(id) {
  document.dispatchEvent(new Event("mars:url")); // cancels a pending update, see tabs/race.js
  setQuery({ run: id, ...without(["lane", "pass", "branch", "beside", ...constants.settings]) });
}

let timer;

/** Put the selected forward into the URL, but not at every frame of a replay. */
export function updateUrlSoon() {
  clearTimeout(timer);
  if (!constants.shelf || requested.pass || hasQueuedSteps() || !stage.reader.over) return;
  timer = setTimeout(() => {
    if (!focused() || view.playing !== null || !isInUrl()) return;
    const pass = selectedForward();
    const at = pass ? { run: stage.recording, lane: view.focus, pass } : { lane: null, pass: null };
    const more = stage.steps.length || stage.beside ? { run: stage.recording } : {};
    setQuery({ ...at, ...more, branch: written(stage.steps), beside: stage.beside });
  }, 250);
}

/** Whether the URL opens what is on the stage: its recording, or the settings of a race. */
const isInUrl = () => (stage.recording ? recordingInUrl() === stage.recording : stage.raced && hasPrompt());

function selectedForward() {
  if (view.pinned?.lane === view.focus) return view.pinned.pass + 1;
  return view.time === null ? 0 : view.lanes[view.focus].shown;
}
