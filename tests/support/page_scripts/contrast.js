const [least, edge] = arguments;
const parse = (text) => {
  const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
  return { alpha, light: [red, green, blue].map((each) => each / 255)
    .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)) };
};
const luminance = ({ light: [red, green, blue] }) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;
const ratio = (one, other) => {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
const ground = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const found = parse(getComputedStyle(at).backgroundColor);
    if (found.alpha === 1) return found;
    if (found.alpha > 0) throw new Error(`translucent: ${at.outerHTML.slice(0, 80)}`);
  }
  throw new Error("no background");
};
const isSeen = (element) => element.checkVisibility({ visibilityProperty: true });
const found = [];
let texts = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !isSeen(element) || element.closest(":disabled")) continue;
  texts += 1;
  const contrast = ratio(parse(getComputedStyle(element).color), ground(element));
  if (contrast < least) found.push(`text ${contrast.toFixed(2)}: ${node.data.slice(0, 60)}`);
}
for (const control of document.querySelectorAll("button, input, textarea")) {
  if (!isSeen(control) || control.disabled || control.type === "file") continue;
  const contrast = ratio(parse(getComputedStyle(control).borderTopColor), ground(control.parentElement));
  if (contrast < edge) found.push(`edge ${contrast.toFixed(2)}: ${control.outerHTML.slice(0, 80)}`);
}
return { texts, found };
