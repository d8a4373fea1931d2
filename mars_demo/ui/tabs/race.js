// Update the URL after each change of a control and when a race begins (`data.live`), so that it opens the
// same page. It names a recorded run while the controls have its settings, and the controls otherwise.
// "mars:url" cancels a pending update: by the next one, or by a recorded run that the visitor chooses
// (components/stage/links.js).
(data, prompt, model, modes, tau, criterion, wait, system) => {
  const settings = () => {
    const text = data.examples[prompt] ?? prompt;
    // A prompt that continues a conversation is useless without it.
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
    const first = fresh && Object.values(data.recorded)[0];
    const recorded = data.live ? null : (data.recorded[query.get("run")] ?? first);
    const same = recorded && Object.entries(now).every(([key, value]) => recorded[key] === value);
    const other = ([key, value]) => query.has(key) && query.get(key) !== value;
    const moved = query.has("run") || Object.entries(now).some(other);
    if (!same && moved) for (const key of ["run", "lane", "pass", "branch", "beside"]) query.delete(key);
    for (const [key, value] of Object.entries({ ...now, wait: wait ? String(wait) : null }))
      if (value === null || (same && key !== "wait")) query.delete(key);
      else query.set(key, value);
    history.replaceState(history.state, "", `?${query}`);
  };
  document.dispatchEvent(new Event("mars:url"));
  if (data.live) return write();
  const timer = setTimeout(write, 250);
  document.addEventListener("mars:url", () => clearTimeout(timer), { once: true });
}
