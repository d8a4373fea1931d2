// Turn pages with the arrow keys, unless an element that uses them has the focus. Listens only once per
// page.
() => {
  const { dataset } = document.documentElement;
  if (dataset.lessonKeys) return;
  dataset.lessonKeys = "on";
  document.addEventListener("keydown", (event) => {
    const own = "input, textarea, select, table, [role=tab], [role=application], [role=slider], .stage *";
    if (event.target.matches(own) || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = document.querySelector({ ArrowRight: "#next", ArrowLeft: "#back" }[event.key]);
    if (button?.offsetParent) button.click();
  });
}
