// Put the settings of the open tab into the URL after each change of a control, except a sentence that
// would make the URL too long for some servers. `data.open`: Python has just opened the tab, without an
// event of the page.
(data, ...values) => {
  if (data.open) {
    const query = new URLSearchParams(location.search);
    query.set("tab", "mask");
    history.replaceState(history.state, "", `?${query}`);
  }
  document.dispatchEvent(new Event("mars:mask-url")); // cancels the pending update
  const timer = setTimeout(() => {
    const query = new URLSearchParams(location.search);
    if (query.get("tab") !== "mask") return;
    data.names.forEach((name, index) => {
      const text = String(values[index] ?? "");
      if (new TextEncoder().encode(text).length < data.longest) query.set(`mask_${name}`, text);
      else query.delete(`mask_${name}`);
    });
    history.replaceState(history.state, "", `?${query}`);
  }, 250);
  document.addEventListener("mars:mask-url", () => clearTimeout(timer), { once: true });
}
