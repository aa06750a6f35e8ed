// What scrolls sideways takes the focus, so that the arrow keys scroll it, too. Some of it scrolls in a narrow window only.
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});
addEventListener("load", () => {
  for (const region of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) sizes.observe(region);
});
