// Put the open tab into the URL, unless it is the first.
(first) => {
  const name = document.querySelector("[role=tab][aria-selected=true]")?.textContent.trim().toLowerCase();
  const query = new URLSearchParams(location.search);
  if (!name || name === first) query.delete("tab");
  else query.set("tab", name);
  if (name !== "learn") query.delete("chapter");
  history.replaceState(history.state, "", `?${query}`);
}
