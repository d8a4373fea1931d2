// The arrow keys turn pages while nothing else that uses them has the focus.
() => {
  if (window.lessonKeys) return;
  window.lessonKeys = true;
  document.addEventListener("keydown", (event) => {
    const own = "input, textarea, select, table, [role=tab], [role=application], [role=slider], .stage *";
    if (event.target.matches(own) || event.ctrlKey || event.metaKey || event.altKey) return;
    const button = document.querySelector({ ArrowRight: "#next", ArrowLeft: "#back" }[event.key]);
    if (button?.offsetParent) button.click();
  });
}
