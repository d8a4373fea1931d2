// Remove the tab from the URL: Python has opened the first one, without an event of the page.
() => {
  const query = new URLSearchParams(location.search);
  query.delete("tab");
  history.replaceState(history.state, "", `?${query}`);
}
