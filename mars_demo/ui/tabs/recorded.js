// Return the settings of the recorded run in the URL, for the controls. The browser knows them without a
// request, during which the controls and the URL would disagree.
(runs) => runs[new URLSearchParams(location.search).get("run")]
