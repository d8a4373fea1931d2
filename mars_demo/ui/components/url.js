// The query of the page's URL: settings, the recorded run and the selected forward.

export const queryValue = (key) => new URLSearchParams(location.search).get(key);

/** Set entries of the query; null deletes a key. */
export function setQuery(entries) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(entries))
    if (value === null) query.delete(key);
    else query.set(key, value);
  const text = query.toString();
  if (text !== location.search.slice(1))
    history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
}
