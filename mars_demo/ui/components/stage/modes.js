// The table of modes, which Python hands over: titles, their order on the stage, and how each is drawn.

import { constants } from "../component.js";

export const modes = new Map(constants.modes.map((mode) => [mode.name, mode]));
export const BASELINE = constants.modes[0].name; // what the others are compared with
export const inOrder = (byMode) => [...modes.keys()].flatMap((name) => byMode[name] ?? []);

/** The run of the baseline, if there is one, and the others. */
export const sides = (runs) => [runs[BASELINE], inOrder(runs).filter((run) => run !== runs[BASELINE])];
