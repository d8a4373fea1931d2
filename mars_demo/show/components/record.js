// The lines of a run's record, as in core/trace.py: their types, and how the live page writes them.

import { fixed } from "./words.js";

/**
 * A position that a forward predicted.
 * @typedef {object} Slot
 * @property {number} id
 * @property {string} text
 * @property {number} score from 0 to 1, by the run's criterion
 * @property {(readonly [text: string, probability: number])[]} top best first
 * @property {string} [source]
 * @property {number[]} [candidates] the ids of `top`
 */

/**
 * One forward and its accepted slots.
 * @typedef {object} Pass
 * @property {number} pass counted from 1
 * @property {number | null} tau
 * @property {number} positions
 * @property {number} ms
 * @property {number} accepted
 * @property {Slot[]} slots
 * @property {string | null} stop
 * @property {number} [drafts]
 * @property {number} [verified]
 * @property {number} [groups]
 * @property {number} [draft_forwards]
 * @property {number} [model_ms]
 * @property {number} [read_ms]
 */

/** @typedef {{ role: string, content: string, mode?: string }} Message */

/**
 * The first line of a run.
 * @typedef {object} Settings
 * @property {string} run
 * @property {string} mode
 * @property {string} model
 * @property {number} window
 * @property {number | null} tau
 * @property {string} prompt
 * @property {string} device
 * @property {string} dtype
 * @property {string} criterion
 * @property {Message[]} messages
 * @property {string} [gpu]
 * @property {{ temperature?: number }} [sampling]
 * @property {[positions: number, ms: number][]} [costs]
 * @property {{ kind: string, text: string, compact?: boolean }} [grammar]
 * @property {number} [prompt_tokens]
 * @property {number} [cached_tokens]
 */

/** @typedef {{ recording: string, title: string, note: string }} Recording the heading of a recorded run */

/** @typedef {{ stop: string, forwards?: number, commits?: number }} Done the last line of a run */

/**
 * Return a JSON line; numbers have at most six decimals, and fields that are undefined are left out.
 * @param {string} lane
 * @param {object} record
 */
export const line = (lane, record) => `${JSON.stringify({ lane, ...record }, rounded)}\n`;

const rounded = (/** @type {string} */ _, /** @type {any} */ value) =>
  typeof value === "number" ? Number(fixed(value, 6)) : value;
