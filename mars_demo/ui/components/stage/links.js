// The page's address: the recorded run and the selected forward, beside the settings of a race.

import { remember, remembered } from "../address.js";
import { constants } from "../component.js";
import { hasSteps, written } from "./branches.js";
import { focused, stage, view } from "./state.js";

/** The forward that the address asks for, until it is shown. */
export const wanted = { lane: null, pass: null };
if (constants.shelf) Object.assign(wanted, { lane: remembered("lane"), pass: numberOf(remembered("pass")) });

/** A forward's number; null where an address has none. */
function numberOf(text) {
  const number = Number(text);
  return Number.isSafeInteger(number) && number > 0 ? number : null;
}

const without = (keys) => Object.fromEntries(keys.map((key) => [key, null]));
export const forget = (keys) => remember(without(keys));
export const hasPrompt = () => remembered("prompt") !== null;

/** The recorded run that the address opens: the one it names, or the first if it holds no settings either. */
export function addressed() {
  const ids = constants.recordings.map(({ id }) => id);
  const empty = constants.settings.every((key) => remembered(key) === null);
  return ids.find((id) => id === remembered("run")) ?? (empty ? ids[0] : null);
}

/** Whether the address asks for branches. */
export const opensSteps = () => constants.shelf && remembered("branch") !== null;

/** The recorded run that the address wants beside its own. */
export const addressedBeside = () => constants.recordings.map(({ id }) => id).find((id) => id === remembered("beside"));

/** A recorded run was chosen: its settings are those of the race. */
export function nameRecording(id) {
  clearTimeout(window.remembering); // what the controls were before
  remember({ run: id, ...without(["lane", "pass", "branch", "beside", ...constants.settings]) });
}

let remembering;

/** The selected forward goes into the address, but not at every frame of a replay. */
export function rememberSoon() {
  clearTimeout(remembering);
  if (!constants.shelf || wanted.pass || hasSteps() || !stage.reader.over) return;
  remembering = setTimeout(() => {
    if (!focused() || view.playing !== null || !linked()) return;
    const pass = selectedForward();
    const at = pass ? { run: stage.recording, lane: view.focus, pass } : { lane: null, pass: null };
    const more = stage.steps.length || stage.beside ? { run: stage.recording } : {};
    remember({ ...at, ...more, branch: written(stage.steps), beside: stage.beside });
  }, 250);
}

/** Whether the address opens what is on the stage: its recording, or the settings of a race. */
const linked = () => (stage.recording ? addressed() === stage.recording : stage.raced && hasPrompt());

function selectedForward() {
  if (view.pinned?.lane === view.focus) return view.pinned.pass + 1;
  return view.time === null ? 0 : view.lanes[view.focus].shown;
}
