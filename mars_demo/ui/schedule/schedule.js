// Draws schedules below each other on one axis of steps, and plays them.

const PACE = 180; // ms per step

let schedules = [];
let step = 0;
let timer = null;
const last = () => Math.max(0, ...schedules.map(({ steps }) => steps.length));

function build() {
  find(".list").replaceChildren(
    ...schedules.map((schedule) => {
      const box = make("section", "one");
      const title = make("p", "title", schedule.title);
      title.append(make("span", "figures"));
      const rows = make("div", "rows");
      schedule.rows.forEach((text, row) => {
        const cells = make("div", "cells");
        for (let index = 0; index < last(); index++) {
          const cell = make("i", "cell");
          cell.dataset.state = schedule.steps[index]?.[row] ?? "free";
          cells.append(cell);
        }
        rows.append(make("span", "name", text), cells);
      });
      box.append(title, rows);
      return box;
    }),
  );
  find(".playhead").max = last();
}

function show() {
  find(".playhead").value = step;
  say(find(".at"), `step ${step} of ${last()}`);
  say(find(".play"), timer === null ? "▶ Play" : "⏸ Pause");
  findAll(".one").forEach((box, index) => {
    const { steps, shares } = schedules[index];
    findAll(".cells", box).forEach((cells) => [...cells.children].forEach((cell, at) => cell.classList.toggle("ahead", at >= step)));
    say(
      find(".figures", box),
      `${plural(steps.length, "forward")}, ${Math.round(100 * shares.wait)}% waiting, ${Math.round(100 * shares.commit)}% committing`,
    );
  });
}

function stop() {
  clearInterval(timer);
  timer = null;
}

function play() {
  if (timer !== null) stop();
  else {
    if (step >= last()) step = 0;
    timer = setInterval(() => {
      step++;
      if (step >= last()) stop();
      show();
    }, PACE);
  }
  show();
}

find(".play").addEventListener("click", play);
find(".playhead").addEventListener("input", ({ target }) => {
  stop();
  step = Number(target.value);
  show();
});

function update() {
  stop();
  schedules = (props.value || "").split("\n").filter(Boolean).map((line) => JSON.parse(line));
  step = last();
  build();
  show();
}

watch("value", update);
update();
