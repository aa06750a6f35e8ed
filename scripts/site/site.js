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
// The theme makes the button beside each block of code a landmark; a page has dozens of them, all without a name.
const noLandmark = () => {
  for (const bar of document.querySelectorAll(".md-code__nav:not([role])")) bar.setAttribute("role", "presentation");
};
new MutationObserver(noLandmark).observe(document.documentElement, { childList: true, subtree: true });
noLandmark();
