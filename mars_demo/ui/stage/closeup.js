// The forwards of the lane in focus: the window of one, the confidence of all, and "what if".

const STATES = {
  accepted: ["✓", "accepted"],
  rejected: ["✗", "first below τ"],
  unread: ["○", "ignored"],
  draft: ["◇", "draft, verified by the next forward"],
  filled: ["●", "filled, waiting for the slots before it"],
  replaced: ["✗", "draft that the model replaced"],
};
const LEVELS = [0.5, 0.8, 0.9, 0.95, 0.99]; // bounds between the steps of the heat map

// ------------------------------------------------------------------------------- one forward's window

/** Rows of the window: {state, text, confidence, slot}. A lossless pass lists what became of each draft. */
function windowRows(run, index) {
  const pass = run.passes[index];
  const rows = pass.slots.map((slot, number) => ({
    state: stateOf(run.settings.mode, pass, number),
    text: candidate(pass, number),
    confidence: slot.confidence,
    slot: number,
  }));
  if (pass.drafts === undefined || !index || pass.verified >= pass.drafts || pass.stop === "eos") return rows;
  const before = run.passes[index - 1];
  const refused = before.slots.slice(before.accepted, before.accepted + pass.drafts).slice(pass.verified);
  const dropped = refused.map((slot, number) => ({
    state: number ? "unread" : "replaced",
    text: visible(slot.text),
    confidence: slot.confidence,
    slot: null,
  }));
  rows.splice(pass.accepted, 0, ...dropped);
  return rows;
}

function windowCaption(run, pass) {
  const start = `Forward ${pass.pass}: `;
  if (pass.drafts === undefined) {
    const tau = pass.tau === null ? "" : `, τ ${pass.tau.toFixed(2)}`;
    return `${start}${pass.accepted} of ${plural(pass.slots.length, "slot")} accepted${tau}`;
  }
  if (!pass.drafts) return `${start}no draft to verify yet, ${pass.accepted} accepted`;
  const verified = `${start}${pass.verified} of ${plural(pass.drafts, "draft")} verified, ${pass.accepted} accepted`;
  if (pass.stop || pass.groups === null || pass.groups === undefined) return verified;
  const kept = keptGroup(pass);
  if (pass.groups === 1) return verified + (kept === null ? "; its masks followed a wrong draft, dropped" : "; its masks kept");
  return `${verified}; mask group ${kept} of 0–${pass.groups - 1} kept`;
}

function drawWindow(run, index, slot) {
  const panel = find(".window");
  const list = find(".slots", panel);
  const pass = run?.passes[index];
  say(find(".whose", panel), run ? `${MODES[run.settings.mode]}, one forward` : "One forward");
  if (!pass) {
    list.replaceChildren();
    say(find(".caption", panel), run ? "Before the first forward" : "");
    say(find(".legend", panel), "");
    return;
  }
  const rows = windowRows(run, index);
  while (list.children.length < rows.length) list.append(emptySlot());
  list.style.setProperty("--window", run.settings.window);
  list.dataset.mode = run.settings.mode;
  list.dataset.hue = pass.pass % HUES;
  [...list.children].forEach((node, number) => {
    const row = rows[number];
    node.hidden = !row;
    if (!row) return;
    node.dataset.state = row.state;
    node.dataset.column = row.state === "draft" ? "drafts" : "read";
    node.classList.toggle("inspected", slot !== null && row.slot === slot);
    say(find(".mark", node), STATES[row.state][0]);
    find(".mark", node).title = STATES[row.state][1];
    say(find(".candidate", node), row.text);
    say(find(".confidence", node), percent(row.confidence));
    find(".bar i", node).style.width = `${100 * row.confidence}%`;
  });
  const threshold = pass.tau !== null && pass.slots.length > 1;
  const leftToRight = run.settings.mode === "mars";
  list.classList.toggle("threshold", threshold);
  if (threshold) list.style.setProperty("--tau", pass.tau);
  say(find(".caption", panel), windowCaption(run, pass));
  const legend = [...new Set(rows.map((row) => row.state))].map((state) => STATES[state].join(" "));
  if (threshold && leftToRight) legend.push("slot 1 is always accepted");
  say(find(".legend", panel), legend.join("   "));
}

function emptySlot() {
  const row = make("li", "slot");
  const bar = make("span", "bar");
  bar.append(make("i", ""));
  row.append(make("span", "mark"), make("span", "candidate"), bar, make("span", "confidence"));
  return row;
}

// ---------------------------------------------------------------------------------- all forwards

/** Passes across, slots down; accepted cells outlined. Grows column by column. */
const heat = {
  run: null,
  columns: [],

  grow(run) {
    const map = find(".heat");
    if (run !== this.run) {
      this.run = run;
      this.columns = [];
      map.replaceChildren();
    }
    if (!run) return;
    for (let index = this.columns.length; index < run.passes.length; index++) this.addColumn(map, run.passes[index], index);
    const rows = Math.max(run.settings.window, ...run.passes.slice(0, 50).map((pass) => pass.slots.length));
    map.setAttribute("viewBox", `0 0 ${Math.max(run.passes.length, 10)} ${rows}`);
    map.setAttribute("aria-label", `Confidence of ${plural(run.passes.length, "forward")}, slots from top to bottom`);
  },

  addColumn(map, pass, number) {
    const column = draw("g", { transform: `translate(${number} 0)`, "data-pass": number });
    pass.slots.forEach((slot, index) => {
      const level = LEVELS.filter((bound) => slot.confidence >= bound).length;
      column.append(draw("rect", { x: 0.05, y: index + 0.03, width: 0.9, height: 0.94, "data-level": level }));
    });
    const height = Math.max(0, pass.accepted - 0.06); // block diffusion may accept none
    column.append(draw("rect", { class: "accepted-cells", x: 0.03, y: 0.03, width: 0.94, height }));
    this.columns.push(column);
    map.append(column);
  },

  showUntil(count) {
    this.columns.forEach((column, index) => column.classList.toggle("future", index >= count));
  },

  ghost(tau) {
    for (const old of findAll(".heat .ghost-cells")) old.remove();
    if (tau === null || !this.run) return;
    this.run.passes.forEach((pass, index) => {
      const height = acceptedAt(pass, tau) - 0.06;
      if (acceptedAt(pass, tau) === pass.accepted) return;
      this.columns[index].append(draw("rect", { class: "ghost-cells", x: 0.03, y: 0.03, width: 0.94, height }));
    });
  },

  legend() {
    const labels = ["< 0.5", ...LEVELS.map((bound) => `≥ ${bound}`), "accepted"];
    labels.forEach((label, level) => {
      const key = make("i", level > LEVELS.length ? "key-cell outlined" : "key-cell");
      key.dataset.level = level;
      const entry = make("span", "");
      entry.append(key, label);
      find(".heat-legend").append(entry);
    });
  },
};

/** The share of passes that accepted 1, 2, … tokens. */
function drawShares(run, count) {
  const list = find(".shares");
  const sizes = run ? Math.max(run.settings.window, ...run.passes.map((pass) => pass.accepted)) : 0;
  while (list.children.length > sizes) list.lastChild.remove();
  while (list.children.length < sizes) {
    const row = make("li", "share");
    const bar = make("span", "bar");
    bar.append(make("i", ""));
    row.append(make("span", "size"), bar, make("span", "part"));
    list.append(row);
  }
  const tally = new Array(sizes + 1).fill(0);
  for (const pass of run?.passes.slice(0, count) ?? []) tally[pass.accepted]++;
  [...list.children].forEach((row, index) => {
    const share = count ? tally[index + 1] / count : 0;
    say(find(".size", row), `${index + 1}`);
    say(find(".part", row), tally[index + 1] ? `${Math.round(100 * share)}% (${tally[index + 1]})` : "");
    find(".bar i", row).style.width = `${100 * share}%`;
  });
}

/** Another τ over a finished run, pass by pass. */
function drawGhost(run, index, tau) {
  const box = find(".ghost");
  const allowed = run?.settings.mode === "mars" && Boolean(run.done);
  box.hidden = !allowed;
  if (!allowed) return;
  const start = run.passes.at(-1)?.tau ?? run.settings.tau;
  if (tau === null) find(".ghost-range").value = start;
  say(find(".ghost-tau"), (tau ?? start).toFixed(2));
  const again = find('[data-do="again"]');
  again.hidden = tau === null;
  if (tau === null) {
    say(find(".ghost-words"), "Move it to see what each forward would have accepted.");
    return;
  }
  const changed = run.passes.filter((pass) => acceptedAt(pass, tau) !== pass.accepted).length;
  const pass = run.passes[Math.max(0, index)];
  const accepted = acceptedAt(pass, tau);
  const here =
    accepted === pass.accepted
      ? `Forward ${pass.pass} would have accepted ${accepted} as well.`
      : `Forward ${pass.pass} would have accepted ${accepted} instead of ${pass.accepted}.`;
  say(
    find(".ghost-words"),
    `${here} ${changed} of ${run.passes.length} forwards would differ, each taken alone: after another choice the next forward reads another text.`,
  );
  say(again, `Run again with τ ${tau.toFixed(2)}`);
}
