// The inspector: the details of one token.

import { constants, server } from "../component.js";
import { forcedBefore, isForced } from "../acceptance.js";
import { find, make, say } from "../dom.js";
import { percent, tauText, visible } from "../words.js";
import { alternative, whereOf } from "./card.js";
import { baselineOf } from "./modes.js";
import { earlierGuesses, scoreText, sourceText } from "./passes.js";
import { stage, view } from "./state.js";

/** @type {any} */
let drawn = null; // {run, pass, slot, over}
const predictions = new Map(); // the model's probabilities with one token at a time, by run and token

export function drawInspector() {
  const panel = find(".inspector");
  const { lane, pass, slot } = view.pinned ?? { lane: "", pass: 0, slot: null };
  const run = stage.reader.runs[lane];
  panel.hidden = !run || slot === null || !run.passes[pass];
  if (slot === null || panel.hidden) {
    drawn = null;
    return;
  }
  const now = { run, pass, slot, over: stage.reader.over };
  if (drawn && Object.entries(now).every(([key, value]) => drawn[key] === value)) return;
  drawn = now;
  const step = run.passes[pass];
  const at = run.indexOf(pass, slot);
  say(find(".inspector-whose", panel), `token ${at + 1}, ${run.title}`);
  say(find(".where", panel), whereOf(run, step, slot));
  say(
    find(".source", panel),
    [sourceText(step.slots[slot]), roleOf(run, step, slot)].filter(Boolean).join(" "),
  );
  drawCandidates(find(".candidates", panel), step.slots[slot]);
  drawGuesses(find(".guesses", panel), run, at);
  drawPrediction(find(".prediction", panel), run, at);
}

/** Return why the token was accepted. */
function roleOf(run, pass, slot) {
  if (isForced(pass.slots[slot])) return "It needed no forward of its own.";
  if (pass.drafts !== undefined && slot < pass.verified) return "A draft that this forward verified.";
  if (pass.drafts !== undefined && slot === pass.verified)
    return "The model's own token after the verified drafts.";
  if (run.mode.beyond === "filled") return "";
  if (slot === forcedBefore(pass)) return "Slot 1 is always accepted: its inputs are real tokens only.";
  return pass.tau === null
    ? ""
    : `Accepted because its score is at least τ = ${tauText(pass.tau)}, and so were those before it.`;
}

// --------------------------------------------------------------------------------- candidates

function drawCandidates(list, slot) {
  list.replaceChildren(
    ...slot.top.map((pair, index) => {
      const row = alternative(pair);
      if (slot.candidates?.[index] === slot.id) row.append(make("span", "taken", "✓ accepted"));
      return row;
    }),
  );
  if (!slot.top.length)
    list.append(make("li", "nothing", "An n-gram draft has no alternatives: it is verified as it is."));
}

// ------------------------------------------------------------------------------ earlier guesses

function drawGuesses(list, run, at) {
  const { id } = slotOf(run, at);
  const rows = earlierGuesses(run, at).map(({ number, slot, guess }) => {
    const isRight = guess.id === id;
    const row = make("li", isRight ? "came-true" : "did-not");
    row.append(
      make("span", "mark", isRight ? "✓" : "✗"),
      make("span", "candidate", visible(guess.text) || "…"),
      make(
        "span",
        "",
        `forward ${number}, slot ${slot}: ${scoreText(run, guess.score)}, ${isRight ? "right" : "wrong"}`,
      ),
    );
    return row;
  });
  list.replaceChildren(...rows);
  if (!rows.length) list.append(make("li", "nothing", "No earlier forward had a slot for this token."));
}

function slotOf(run, at) {
  const { pass, slot } = run.placeOf(at);
  return run.passes[pass].slots[slot];
}

// ------------------------------------------------------------- probabilities with one token at a time

/**
 * Draw the probabilities from the baseline's record if it has the same text before; otherwise offer to ask
 * the model.
 */
function drawPrediction(box, run, at) {
  const slot = slotOf(run, at);
  const own = recorded(run, at);
  const prediction = predictions.get(`${run.settings.run} ${at}`);
  const button = find("button", box);
  button.hidden = Boolean(own || prediction) || !constants.main || !stage.reader.over;
  say(
    find("p", box),
    own
      ? isForced(own)
        ? "The grammar leaves AR no choice either."
        : `It gives this token ${chanceOf(own, slot)}.${first(own.top, own.id === slot.id)}`
      : (prediction?.words ?? missing(button)),
  );
  find("ol", box).replaceChildren(...(own?.top ?? prediction?.top ?? []).map(alternative));
}

/** Return the probability of a token in a slot; below the least of its candidates if it is not among them. */
function chanceOf(slot, token) {
  const place = slot.candidates?.indexOf(token.id) ?? slot.top.findIndex(([text]) => text === token.text);
  const named = slot.top[place];
  if (named) return percent(named[1]);
  return slot.top.length ? `less than ${percent(slot.top.at(-1)[1] + 1e-4)}` : "not recorded";
}

const missing = (button) => (button.hidden ? "Not recorded." : "");
const first = ([best], same) =>
  same ? " It would write the same token." : best ? ` It would write “${visible(best[0]) || "end"}”.` : "";

function recorded(run, at) {
  const baseline = baselineOf(run, stage.reader.runs);
  if (!baseline || baseline === run) return baseline && slotOf(run, at);
  const place = baseline.placeOf(at);
  const [before, after] = [run.ids, baseline.ids].map((ids) => ids.slice(0, at).join());
  return place && before === after ? baseline.passes[place.pass].slots[place.slot] : null;
}

export async function askPrediction() {
  const { run, pass, slot } = drawn;
  const at = run.indexOf(pass, slot);
  const box = find(".prediction");
  say(find("p", box), "Asking the model…");
  find("button", box).hidden = true;
  try {
    const { probability, rank, top } = await server.prediction({
      record: stage.reader.texts[run.lane],
      at,
    });
    const ranked =
      rank === 1 ? `.${first(top, true)}` : `, rank ${rank} in its vocabulary.${first(top, false)}`;
    const words = `It gives this token ${percent(probability)}${ranked}`;
    predictions.set(`${run.settings.run} ${at}`, { words, top });
  } catch {
    predictions.set(`${run.settings.run} ${at}`, {
      words: `${run.settings.model} did not answer.`,
      top: [],
    });
  }
  if (drawn?.run === run && drawn.pass === pass && drawn.slot === slot) drawPrediction(box, run, at);
}
