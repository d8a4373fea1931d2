// After every change of a control, while the tab is open, the settings stand in the address. A sentence that
// would make it too long for some servers stays out of it. `data.open`: Python has just opened the tab, which
// the page does not notice.
(data, ...values) => {
  if (data.open) {
    const query = new URLSearchParams(location.search);
    query.set("tab", "mask");
    history.replaceState(history.state, "", `?${query}`);
  }
  clearTimeout(window.rememberingMask);
  window.rememberingMask = setTimeout(() => {
    const query = new URLSearchParams(location.search);
    if (query.get("tab") !== "mask") return;
    data.names.forEach((name, index) => {
      const text = String(values[index] ?? "");
      if (new TextEncoder().encode(text).length < data.longest) query.set(`mask_${name}`, text);
      else query.delete(`mask_${name}`);
    });
    history.replaceState(history.state, "", `?${query}`);
  }, 250);
}
