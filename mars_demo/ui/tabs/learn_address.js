// Put the chapter's id into the URL.
(ids, heading) => {
  const number = Number(heading.match(/\d+/)[0]) - 1;
  const query = new URLSearchParams(location.search);
  query.set("tab", "learn");
  query.set("chapter", ids[number]);
  history.replaceState(history.state, "", `?${query}`);
}
