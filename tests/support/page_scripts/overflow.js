const width = document.documentElement.clientWidth;
const isScrolled = (element) => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
const found = [];
if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide`);
for (const element of document.body.querySelectorAll("*")) {
  const box = element.getBoundingClientRect();
  if (!element.checkVisibility() || !box.width || getComputedStyle(element).clipPath !== "none") continue;
  if (element.closest("thead") && getComputedStyle(element.closest("thead")).clipPath !== "none") continue;
  if (box.right > width + 0.5 || box.left < -0.5) found.push(`out of the window: ${element.outerHTML.slice(0, 100)}`);
  else if (element.scrollWidth > element.clientWidth + 1 && isScrolled(element)) found.push(`scrolls: ${element.outerHTML.slice(0, 100)}`);
}
return found;
