// What the page's URL says of the stage, and what the stage writes there: recorded runs and the selected forward.

import { cancelStage, passInUrl, queryValue, recordingInUrl, writeStage } from "../../url.js";
import { constants } from "../component.js";
import { focused, stage, view } from "./state.js";

const IDS = constants.recordings.map(({ id }) => id);
const inUrl = () => recordingInUrl(IDS, constants.opens ? IDS[0] : undefined);

/** The forward that the URL requests, until it is shown. */
export const requested = {
  lane: constants.main ? queryValue("lane") : null,
  pass: constants.main ? passInUrl() : null,
};

/** Return the recorded runs that the page opens with: one, and one beside it, if any. */
export const opening = () => [inUrl(), IDS.find((id) => id === queryValue("beside"))];

/** Put what is on the stage into the URL, but not at every frame of a replay. */
export function updateUrlSoon() {
  cancelStage();
  if (!constants.main || requested.pass || !stage.reader.over) return;
  writeStage(() => {
    if (!focused() || view.playing !== null || !isInUrl()) return null;
    const pass = selectedForward();
    const at = pass
      ? { run: stage.recording, lane: view.focus, pass: `${pass}` }
      : { lane: null, pass: null };
    return { ...at, ...(stage.beside && { run: stage.recording }), beside: stage.beside };
  });
}

/** Whether the URL opens what is on the stage: its recording, or the settings of a race. */
const isInUrl = () =>
  stage.recording ? inUrl() === stage.recording : stage.live && queryValue("prompt") !== null;

function selectedForward() {
  if (view.pinned?.lane === view.focus) return view.pinned.pass + 1;
  return view.time === null ? 0 : view.lanes[view.focus].shown;
}
