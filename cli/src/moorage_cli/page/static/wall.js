// The wall of all models. A change of a model changes its own element only, whatever their number.

import { byId, make } from "./elements.js";

const ORDER = ["failing", "stuck", "waiting", "changing", "serving", "resting"];

const models = new Map(); // key -> {row, json, rank, text, item}
const sorted = []; // the same, in the order of the wall
let words = [];
let state = ""; // the state that is shown; empty for all
let isDue = false;

export const keyOf = (row) => `${row.namespace}/${row.name}`;
export const hashOf = (row) => `#!${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;

export function replaceAll(rows) {
  const present = new Set(rows.map(keyOf));
  for (const key of [...models.keys()]) if (!present.has(key)) remove(key);
  rows.forEach(put);
  summarize();
}

export function put(row) {
  const key = keyOf(row);
  const json = JSON.stringify(row);
  const known = models.get(key);
  if (known?.json === json) return;
  const rank = `${ORDER.indexOf(row.state)} ${key}`;
  const text = [row.namespace, row.name, row.state, row.reason, row.protocol, row.uri].join(" ").toLowerCase();
  const entry = known || { item: make("li", {}, make("a", { href: hashOf(row) })) };
  const isMoved = entry.rank !== rank;
  if (known && isMoved) sorted.splice(placeOf(known.rank), 1);
  Object.assign(entry, { row, json, rank, text });
  fill(entry.item.firstChild, row);
  models.set(key, entry);
  if (isMoved) insert(entry);
  showIfAsked(entry);
  if (!isDue) { isDue = true; setTimeout(() => { isDue = false; summarize(); }, 100); }
}

export function remove(key) {
  const known = models.get(key);
  if (!known) return;
  sorted.splice(placeOf(known.rank), 1);
  known.item.remove();
  models.delete(key);
  summarize();
}

function fill(link, row) {
  const facts = [
    row.replicas && `${row.replicas} replicas`, row.protocol, row.version && `version ${row.version}`,
    row.progress && `step ${row.progress.split(" ")[0]}`].filter(Boolean);
  link.className = row.state;
  link.replaceChildren(
    make("strong", {}, row.name), " ", make("span", { class: "dim" }, row.namespace),
    make("p", { class: "state" }, titleOf(row)),
    make("p", {}, facts.join(" · ") || "no replicas yet"),
    row.state === "serving" ? "" : make("p", { class: "message" }, row.message));
}

export const titleOf = (row) =>
  (row.reason.toLowerCase() === row.state ? row.state : `${row.state}: ${row.reason}`);

function placeOf(rank) {
  let low = 0;
  for (let high = sorted.length; low < high;) {
    const middle = (low + high) >> 1;
    if (sorted[middle].rank < rank) low = middle + 1; else high = middle;
  }
  return low;
}

function insert(entry) {
  const place = placeOf(entry.rank);
  const isFocused = document.activeElement === entry.item.firstChild;
  byId("models").insertBefore(entry.item, sorted[place]?.item || null);
  sorted.splice(place, 0, entry);
  if (isFocused) entry.item.firstChild.focus();
}

function showIfAsked(entry) {
  const isShown = (!state || entry.row.state === state) && words.every((word) => entry.text.includes(word));
  if (entry.item.hidden === isShown) entry.item.hidden = !isShown;
}

// The number of models in each state, as buttons that filter.
function summarize() {
  const counts = { "": models.size };
  for (const { row } of models.values()) counts[row.state] = (counts[row.state] || 0) + 1;
  for (const button of byId("states").children) {
    const its = button.dataset.state;
    const text = `${counts[its] || 0} ${its || (models.size === 1 ? "model" : "models")}`;
    if (button.textContent !== text) button.textContent = text;
    const isHidden = Boolean(its) && !counts[its] && state !== its;
    if (button.hidden !== isHidden) button.hidden = isHidden;
    button.setAttribute("aria-pressed", String(state === its));
  }
  const isEmpty = !sorted.some((each) => !each.item.hidden);
  byId("none").hidden = !isEmpty;
  if (isEmpty) byId("none").textContent = models.size ? "No model matches." : "There are no models. Deploy one with moorage deploy.";
}

function filter() {
  words = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  sorted.forEach(showIfAsked);
  summarize();
}

export function start() {
  for (const its of ["", ...ORDER]) {
    const choose = () => { state = state === its ? "" : its; filter(); };
    byId("states").append(make("button", { class: its, "data-state": its, hidden: its !== "", onclick: choose }, its || "…"));
  }
  byId("search").addEventListener("input", filter);
  byId("search").addEventListener("keydown", (event) => {
    const first = sorted.find((each) => !each.item.hidden);
    if (event.key === "Enter" && first) location.hash = hashOf(first.row);
    if (event.key === "Escape" && byId("search").value) { byId("search").value = ""; filter(); }
  });
}

export function focusOn(key) {
  models.get(key)?.item.firstChild.focus();
}
