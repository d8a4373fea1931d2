// What the page's address remembers: settings, the recorded run and the selected forward.

export const remembered = (key) => new URLSearchParams(location.search).get(key);

/** Null forgets a key. */
export function remember(entries) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(entries))
    if (value === null) query.delete(key);
    else query.set(key, value);
  const text = query.toString();
  if (text !== location.search.slice(1)) history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
}
