// After every change of a control and when a race begins (`data.live`), the address is made to open the same
// page again. It names a recorded run while the controls are as that was made, else the controls.
(data, prompt, model, modes, tau, criterion, wait, system) => {
  const settings = () => {
    const text = data.examples[prompt] ?? prompt;
    // A prompt that continues a conversation means nothing without it.
    const alone = !system && !document.querySelector("#stage .turn");
    const fits = alone && new URLSearchParams({ prompt: text }).toString().length <= data.longest;
    return {
      prompt: fits ? text : null,
      mode: data.order.filter((mode) => modes.includes(mode)).join(),
      tau: String(tau),
      ...(model && { model }), // none before the models are known
      criterion: criterion === data.criterion ? null : criterion,
    };
  };
  const write = () => {
    const query = new URLSearchParams(location.search);
    const now = settings();
    const fresh = data.settings.every((key) => !query.has(key));
    const made = data.live ? null : data.recorded[query.get("run")] ?? (fresh && Object.values(data.recorded)[0]);
    const same = made && Object.entries(now).every(([key, value]) => made[key] === value);
    const other = ([key, value]) => query.has(key) && query.get(key) !== value;
    const moved = query.has("run") || Object.entries(now).some(other);
    if (!same && moved) for (const key of ["run", "lane", "pass", "branch", "beside"]) query.delete(key);
    for (const [key, value] of Object.entries({ ...now, wait: wait ? String(wait) : null }))
      if (value === null || (same && key !== "wait")) query.delete(key);
      else query.set(key, value);
    history.replaceState(history.state, "", `?${query}`);
  };
  clearTimeout(window.remembering);
  if (data.live) write();
  else window.remembering = setTimeout(write, 250);
}
