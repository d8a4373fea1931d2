// Draws the metrics of a training as they come.

// Name → chart, side of its scale, label. Series on the same side of a chart share its scale.
const SERIES = {
  clean: ["loss", "left", "clean stream (one token at a time)"],
  noisy: ["loss", "left", "masks"],
  accuracy: ["probe", "left", "right answers"],
  tokens_per_forward: ["probe", "right", "tokens per forward"],
};
const SMOOTH = 20; // steps in a running mean, as losses of single batches jump

let state;
function clear() {
  state = { first: null, offset: 0, settings: {}, steps: [], probes: [], points: {} };
  for (const name of Object.keys(SERIES)) state.points[name] = [];
}

function take(record) {
  if (record.probe !== undefined) {
    state.probes.push(record);
    state.points.accuracy.push([record.probe, record.accuracy]);
    state.points.tokens_per_forward.push([record.probe, record.tokens_per_forward]);
  } else if (record.step) {
    state.steps.push(record);
    for (const name of ["clean", "noisy"]) {
      if (record[name] === undefined) continue;
      const recent = state.steps.slice(-SMOOTH);
      state.points[name].push([record.step, recent.reduce((sum, step) => sum + step[name], 0) / recent.length]);
    }
  } else state.settings = record;
}

/** Where a series' scale ends; all begin at zero. */
function topOf(name) {
  if (name === "accuracy") return 1;
  const [chart, side] = SERIES[name];
  const shared = Object.keys(SERIES).filter((other) => SERIES[other][0] === chart && SERIES[other][1] === side);
  return Math.max(1, ...shared.flatMap((other) => state.points[other].map(([, y]) => y)));
}

function drawSeries(name) {
  const [chart, side, label] = SERIES[name];
  const figure = find(`[data-chart="${chart}"]`);
  const svg = find("svg", figure);
  let path = find(`path[data-series="${name}"]`, svg);
  let key = find(`span[data-series="${name}"]`, figure);
  if (!path) {
    path = draw("path", { "data-series": name });
    svg.append(path);
    key = make("span", "");
    key.dataset.series = name;
    key.append(make("i", ""), make("b", ""));
    find(".legend", figure).append(key);
  }
  const points = state.points[name];
  const top = topOf(name);
  const written = (value) => (name === "accuracy" ? `${Math.round(100 * value)}%` : value.toFixed(2));
  svg.setAttribute("viewBox", `0 0 ${state.settings.steps ?? 1} 1`);
  path.setAttribute("d", points.map(([x, y], i) => `${i ? "L" : "M"}${x} ${1 - y / top}`).join(""));
  const last = points.at(-1)?.[1];
  if (last !== undefined) find(`.scale.${side}`, figure).replaceChildren(make("span", "", written(top)), make("span", "", "0"));
  key.lastChild.textContent = last === undefined ? label : `${label} ${written(last)}`;
  key.hidden = last === undefined;
}

function drawSlots() {
  const list = find(".slots");
  const recent = state.steps.slice(-SMOOTH);
  const slots = Math.max(0, ...recent.map((step) => step.slots.length));
  while (list.children.length > slots) list.lastChild.remove();
  while (list.children.length < slots) {
    const row = make("li", "slot");
    const bar = make("span", "bar");
    bar.append(make("i", ""));
    row.append(make("span", "", `${list.children.length + 1}`), bar, make("span", ""));
    list.append(row);
  }
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  [...list.children].forEach((row, slot) => {
    const seen = recent.map((step) => step.slots[slot]).filter(Boolean);
    const right = mean(seen.map(([, share]) => share));
    find(".bar i", row).style.width = `${100 * right}%`;
    row.lastChild.textContent = `${Math.round(100 * right)}%, ${mean(seen.map(([nats]) => nats)).toFixed(2)} nats`;
  });
}

function update() {
  const value = props.value || "";
  const first = value.slice(0, value.indexOf("\n") + 1);
  if (first !== state.first) {
    clear();
    state.first = first;
  }
  for (let end; (end = value.indexOf("\n", state.offset)) >= 0; state.offset = end + 1)
    take(JSON.parse(value.slice(state.offset, end)));
  Object.keys(SERIES).forEach(drawSeries);
  drawSlots();
  const last = state.steps.at(-1);
  find(".progress").textContent = last
    ? `Step ${last.step} of ${last.steps}, ${last.tokens.toLocaleString("en")} tokens, learning rate ${last.learning_rate.toExponential(1)}`
    : "";
}

clear();
watch("value", update);
update();
