// A token's card: where it came from and what else it could have been.

function showCard(token, run, { pass: index, slot }, pinned) {
  const pass = run.passes[index];
  const card = find(".card");
  say(
    find(".where", card),
    `Forward ${pass.pass}, slot ${slot + 1}: “${candidate(pass, slot)}” at ${percent(pass.slots[slot].confidence)}`,
  );
  find(".alternatives", card).replaceChildren(
    ...pass.slots[slot].top.map(([text, probability]) => {
      const row = make("li", "");
      const bar = make("span", "bar");
      bar.append(make("i", ""));
      bar.firstChild.style.width = `${100 * probability}%`;
      row.append(make("span", "candidate", visible(text) || "…"), bar, make("span", "", percent(probability)));
      return row;
    }),
  );
  find(".pinned-hint", card).hidden = !pinned;
  card.classList.toggle("pinned", pinned);
  card.id ||= `card-${Math.random().toString(36).slice(2)}`;
  token.setAttribute("aria-describedby", card.id);
  card.hidden = false;
  const stage = find(".stage").getBoundingClientRect();
  const box = token.getBoundingClientRect();
  const left = Math.min(box.left - stage.left, stage.width - card.offsetWidth);
  const below = box.bottom + 8;
  const top = below + card.offsetHeight < innerHeight ? below : Math.max(8, box.top - card.offsetHeight - 8);
  card.style.left = `${Math.max(0, left)}px`;
  card.style.top = `${top - stage.top}px`;
}

const hideCard = () => {
  find(".card").hidden = true;
};
