// The settings and the model of the recorded run that a visitor has chosen, which the address names by now, for the
// controls. Not from the server: until it had answered, the controls and the address would disagree.
(runs) => runs[new URLSearchParams(location.search).get("run")]
