// Python has opened the first tab, which the page does not notice: the address names no other.
() => {
  const query = new URLSearchParams(location.search);
  query.delete("tab");
  history.replaceState(history.state, "", `?${query}`);
}
