const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
const isInside = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
return { outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth), isInside };
