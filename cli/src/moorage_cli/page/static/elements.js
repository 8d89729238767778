// Elements of the page. Every text of the cluster is inserted as text, never as HTML.

const SVG = "http://www.w3.org/2000/svg";
const TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

export const byId = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== ""));
  return made;
}

// Replaces only the children that differ, so that focus, selection and scroll positions stay.
export function update(place, children) {
  const wanted = children.filter((child) => child != null && child !== "");
  const key = place.contains(document.activeElement) ? document.activeElement.dataset.key : "";
  wanted.forEach((child, i) => {
    const present = place.childNodes[i];
    if (!present) place.append(child);
    else if (!present.isEqualNode(child)) present.replaceWith(child);
  });
  while (place.childNodes.length > wanted.length) place.lastChild.remove();
  if (key && !place.contains(document.activeElement)) {
    [...place.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
  }
}

export function moment(text) {
  const time = new Date(text || NaN);
  return Number.isNaN(time.getTime()) ? "" : make("time", { datetime: text }, TIME.format(time));
}

export function mark(status) {
  const tone = { True: "good", False: "bad" }[status] || "unsure";
  return make("span", { class: tone }, { True: "yes", False: "no" }[status] || "unknown");
}

export function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

// A column without content is left out. On a narrow screen each row is a block, and each cell shows
// the head of its column.
export function table(title, names, cellsOfRows) {
  if (!cellsOfRows.length) return "";
  const isUsed = (_, i) => cellsOfRows.some((row) => row[i]);
  const heads = names.filter(isUsed);
  const rows = cellsOfRows.map((row) => row.filter(isUsed));
  const cells = (row) => row.map((cell, i) => make("td", { "data-head": heads[i] }, cell || ""));
  return section(title, make("div", { class: "card" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...cells(row)))))));
}
