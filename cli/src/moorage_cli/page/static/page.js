// The page of `moorage ui`. One stream of rows keeps the wall live; a model that is open is read
// again whenever its row changes. Every text of the cluster is inserted as text, never as HTML.
"use strict";

const token = location.hash.slice(1).split("!")[0] || sessionStorage.getItem("token") || "";
sessionStorage.setItem("token", token);

const models = new Map(); // key -> {row, item, text}
const $ = (id) => document.getElementById(id);
let opened = null; // the model that is shown: {key, namespace, name, ...}

function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== ""));
  return made;
}

// Requests.

async function call(path, options = {}) {
  const headers = { "X-Moorage-Token": token, ...(options.headers || {}) };
  const response = await fetch(path, { ...options, headers });
  if (!response.ok) {
    const text = await response.text();
    let sentence = text;
    try { sentence = JSON.parse(text).error; } catch { /* not ours */ }
    throw new Error(sentence || `HTTP ${response.status}`);
  }
  return response;
}

const run = (command, fields = {}) =>
  call("/api/do", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ command, namespace: opened.namespace, name: opened.name, ...fields }),
  }).then((response) => response.json());

async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
}

function tellLost(sentence) {
  $("link").hidden = !sentence;
  $("link").textContent = sentence ? `Not live: ${sentence}` : "";
}

async function follow() {
  for (;;) {
    try {
      const response = await call("/api/models");
      for await (const line of lines(response)) take(JSON.parse(line));
      throw new Error("the connection to moorage ui ended");
    } catch (error) {
      tellLost(error.message);
    }
    await new Promise((done) => setTimeout(done, 2000));
  }
}

function take(message) {
  if (message.lost) return tellLost(message.lost);
  if (message.all) {
    tellLost("");
    const there = new Set(message.all.map(keyOf));
    for (const key of models.keys()) if (!there.has(key)) models.delete(key);
    message.all.forEach(put);
    drawWall();
  } else if (message.put) {
    tellLost("");
    put(message.put);
    schedule();
  } else if (message.deleted) {
    models.delete(message.deleted);
    schedule();
  }
  const key = message.put ? keyOf(message.put) : message.deleted;
  if (opened && (message.all || key === opened.key)) refresh();
}

const keyOf = (row) => `${row.namespace}/${row.name}`;

function put(row) {
  const key = keyOf(row);
  const text = [row.namespace, row.name, row.state, row.reason, row.protocol, row.uri].join(" ").toLowerCase();
  models.set(key, { row, text, item: itemOf(row) });
}

// The wall.

function itemOf(row) {
  const facts = [row.replicas, row.protocol, row.version && `version ${row.version}`].filter(Boolean);
  return make("li", {},
    make("a", { href: hashOf(row), class: row.state },
      make("strong", {}, row.name), " ", make("span", { class: "dim" }, row.namespace),
      make("p", {}, make("span", { class: "state" }, `${row.state}: ${row.reason}`),
        row.progress ? ` ${row.progress}` : ""),
      make("p", {}, facts.join(" · ")),
      row.state === "serving" ? null : make("p", {}, row.message)));
}

let due = 0;
function schedule() {
  if (!due) due = setTimeout(() => { due = 0; drawWall(); }, 100);
}

const ORDER = { failing: 0, waiting: 1, changing: 2, serving: 3, resting: 4 };

function drawWall() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const state = $("filter").value;
  const shown = [...models.values()]
    .filter((each) => (!state || each.row.state === state) && words.every((word) => each.text.includes(word)))
    .sort((a, b) => ORDER[a.row.state] - ORDER[b.row.state] || (keyOf(a.row) < keyOf(b.row) ? -1 : 1));
  const focused = document.activeElement?.getAttribute("href");
  $("models").replaceChildren(...shown.map((each) => each.item));
  if (focused) shown.find((each) => hashOf(each.row) === focused)?.item.firstChild.focus();
  const counts = {};
  for (const { row } of models.values()) counts[row.state] = (counts[row.state] || 0) + 1;
  const parts = Object.keys(ORDER).filter((each) => counts[each]).map((each) => `${counts[each]} ${each}`);
  $("counts").textContent = `${models.size} models${parts.length ? ": " : ""}${parts.join(", ")}`;
  $("none").hidden = shown.length > 0;
  $("none").textContent = models.size ? "No model matches." : "There are no models. Deploy one with moorage deploy.";
}

$("search").addEventListener("input", drawWall);
$("filter").addEventListener("change", drawWall);
document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping && !opened) { event.preventDefault(); $("search").focus(); }
  if (event.key === "Escape" && !$("ask").open && opened && !isTyping) location.hash = "";
});

// Which model is shown is in the address, so that the browser's Back works.

const hashOf = (row) => `#!${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`;

function route() {
  const [, asked] = location.hash.split("!");
  stopLogs();
  clearInterval(opened?.timer);
  if (!asked) {
    opened = null;
    $("model").hidden = true;
    $("wall").hidden = false;
    if (location.hash !== "#") history.replaceState(null, "", "#");
    drawWall();
    return;
  }
  const [namespace, name] = asked.split("/").map(decodeURIComponent);
  opened = { key: `${namespace}/${name}`, namespace, name, points: [] };
  $("wall").hidden = true;
  $("model").hidden = false;
  $("model").replaceChildren(
    make("p", {}, make("a", { href: "#" }, "All models")),
    make("div", { id: "facts" }, make("p", { class: "dim" }, "Loading…")),
    make("div", { id: "request" }),
    make("section", {}, make("h3", {}, "Requests"), make("div", { id: "plots", class: "plots" })),
    make("section", {}, make("h3", {}, "Log"), make("div", { id: "log" })));
  refresh();
  opened.timer = setInterval(measure, 5000);
  measure();
}

window.addEventListener("hashchange", route);

// One model.

async function refresh() {
  const at = opened;
  if (at.isReading) { at.isStale = true; return; }
  at.isReading = true;
  try {
    const query = new URLSearchParams({ namespace: at.namespace, name: at.name });
    const found = await (await call(`/api/model?${query}`)).json();
    if (at !== opened) return;
    const events = await run("events").then((each) => each.document.events, () => []);
    if (at === opened) draw(found, events);
  } catch (error) {
    if (at === opened) $("facts").replaceChildren(make("p", { class: "bad", role: "alert" }, error.message));
  } finally {
    at.isReading = false;
    if (at.isStale && at === opened) { at.isStale = false; refresh(); }
  }
}

function draw(found, events) {
  $("facts").replaceChildren(
    make("div", { class: `bar ${found.state}` },
      make("h2", {}, found.name), make("span", { class: "dim" }, found.namespace),
      make("span", { class: "state" }, `${found.state}: ${found.reason}`)),
    make("p", { class: "dim" }, found.message),
    actionsOf(found),
    ...causesOf(found),
    make("div", { class: "card" }, make("dl", {},
      ...fact("Model", found.uri), ...fact("Replicas", found.replicas),
      ...fact("Protocol", found.protocol), ...fact("Version", found.version),
      ...fact("Revision", revisionsOf(found)), ...fact("Rollouts", found.strategy),
      ...fact("Runtime", found.runtime?.name),
      ...(found.endpoints || []).flatMap((each) => fact(`${each.protocol} ${each.transport}`, each.url)))),
    timeline(found),
    table("Tensors", ["", "name", "datatype", "shape"], [
      ...found.inputs.map((each) => ["input", each.name, each.datatype, shapeOf(each)]),
      ...found.outputs.map((each) => ["output", each.name, each.datatype, shapeOf(each)])]),
    table("Conditions", ["", "status", "reason", "message"], (found.conditions || []).map((each) =>
      [each.type, mark(each.status), each.reason, each.message])),
    table("Replicas", ["pod", "serves", "revision", "restarts", "reason"], (found.replicaStatuses || []).map((each) =>
      [each.pod, mark(each.ready && each.modelReady ? "True" : "False"), each.revision, String(each.restarts ?? 0),
        [each.reason, each.message].filter(Boolean).join(": ")])),
    table("Events", ["last", "object", "reason", "message"], events.slice(-10).reverse().map((each) =>
      [each.last ? new Date(each.last).toLocaleTimeString() : "", `${each.kind}/${each.name}`, each.reason, each.message])));
  if (!$("request").hasChildNodes()) drawRequest(found);
  drawLogs(found);
}

const fact = (name, value) => value ? [make("dt", {}, name), make("dd", {}, String(value))] : [];
const shapeOf = (tensor) => JSON.stringify((tensor.shape || []).map(Number));

function mark(status) {
  const tone = { True: "good", False: "bad" }[status] || "unsure";
  return make("span", { class: tone }, { True: "yes", False: "no" }[status] || "unknown");
}

function revisionsOf(found) {
  const { current, lastGood } = found.revisions || {};
  return lastGood && lastGood !== current ? `${current}, last good ${lastGood}` : current;
}

function table(title, heads, rows) {
  if (!rows.length) return "";
  return make("section", {}, make("h3", {}, title), make("div", { class: "card scroll" }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((each) => make("th", { scope: "col" }, each)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell || ""))))))));
}

function causesOf(found) {
  return found.causes.map((cause) => make("div", { class: "card cause" },
    make("strong", {}, cause.reason), " ", make("span", { class: "dim" }, cause.where),
    make("p", {}, cause.message), cause.means ? make("p", { class: "dim" }, cause.means) : null,
    cause.log ? make("pre", {}, cause.log) : null,
    cause.do ? make("p", {}, make("strong", {}, "What to do: "), cause.do) : null));
}

function timeline(found) {
  const names = { scheduled: "scheduled", artifact: "model fetched", started: "started", modelReady: "model ready", total: "in total" };
  const steps = Object.entries(names).filter(([name]) => found.timings?.[name] != null);
  if (!steps.length) return "";
  return make("section", {}, make("h3", {}, `First replica of revision ${found.timings.revision}`),
    make("ol", { class: "time card" }, ...steps.map(([name, title]) =>
      make("li", {}, make("b", {}, `${(found.timings[name] / 1000).toFixed(1)} s`), title))));
}

// Actions.

const ACTIONS = [
  ["promote", "Promote", "Let the new revision take all requests without waiting for its steps?", (found) => found.strategy === "Canary" && found.rollout],
  ["abort", "Abort", "Give up the rollout and return to the last revision that served?", (found) => found.upToDate !== true],
  ["rollback", "Roll back", "Write the spec of the last other revision that served back?", () => true],
  ["restart", "Restart", "Replace all pods by a rollout of the same spec?", () => true],
  ["pause", "Pause", "Keep the operator from changing the objects of this model?", (found) => !found.paused],
  ["resume", "Resume", "Let the operator change the objects of this model again?", (found) => found.paused],
];

function actionsOf(found) {
  const told = make("span", { role: "status" });
  const buttons = ACTIONS.filter(([, , , isOffered]) => isOffered(found)).map(([command, title, question]) =>
    make("button", { onclick: () => act(command, `${found.namespace}/${found.name}: ${question}`, told) }, title));
  return make("div", { class: "bar" }, ...buttons, told);
}

async function act(command, question, told) {
  if (!(await confirmed(question))) return;
  told.className = "dim";
  told.textContent = "…";
  try {
    const done = await run(command);
    told.className = done.ok ? "good" : "bad";
    told.textContent = done.text.trim();
  } catch (error) {
    told.className = "bad";
    told.textContent = error.message;
  }
}

function confirmed(question) {
  const dialog = $("ask");
  dialog.querySelector("p").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

// A request.

function drawRequest(found) {
  if (!found.inputs.length) return;
  const body = make("textarea", { id: "body", spellcheck: "false", "aria-label": "Request in JSON" });
  body.value = pretty(found.sample);
  const answer = make("pre", { id: "answer", "aria-live": "polite" });
  const send = make("button", { class: "act", id: "send", onclick: async () => {
    send.disabled = true;
    answer.className = "dim";
    answer.textContent = "…";
    const began = performance.now();
    try {
      const done = await run("infer", { request: JSON.parse(body.value) });
      answer.className = done.ok ? "" : "bad";
      answer.textContent = `${pretty(done.document)}\n\n${Math.round(performance.now() - began)} ms through the API server`;
    } catch (error) {
      answer.className = "bad";
      answer.textContent = error.message;
    }
    send.disabled = false;
  } }, "Send");
  const pictures = found.inputs.filter(isPicture).map((tensor) => make("label", {}, `${tensor.name} from a picture `,
    make("input", { type: "file", accept: "image/*", onchange: (event) => {
      const file = event.target.files[0];
      if (file) pixelsOf(file, tensor).then((data) => {
        const request = JSON.parse(body.value);
        Object.assign(request.inputs.find((each) => each.name === tensor.name), data);
        body.value = pretty(request);
      }).catch((error) => { answer.className = "bad"; answer.textContent = error.message; });
    } })));
  $("request").replaceChildren(make("h3", {}, "Try it"), make("div", { class: "card" }, body,
    make("div", { class: "bar" }, send, ...pictures), answer));
}

// JSON with arrays of numbers on one line each.
const pretty = (value) => JSON.stringify(value, null, 1).replace(/\[[\s\d.,eE+-]*\]/g, (found) => found.replace(/\s+/g, ""));

function sizesOf(tensor) {
  const shape = tensor.shape.map(Number);
  const inner = shape[0] === -1 || shape.length === 4 ? shape.slice(1) : shape;
  if (inner.length === 2) return { height: inner[0], width: inner[1], channels: 1, isFirst: false };
  if (inner.length === 3 && [1, 3].includes(inner[2])) return { height: inner[0], width: inner[1], channels: inner[2], isFirst: false };
  if (inner.length === 3 && [1, 3].includes(inner[0])) return { height: inner[1], width: inner[2], channels: inner[0], isFirst: true };
  return null;
}

function isPicture(tensor) {
  const sizes = sizesOf(tensor);
  return tensor.datatype !== "BYTES" && sizes && sizes.height >= 4 && sizes.width >= 4;
}

// The pixels of a picture in the tensor's shape, 0 to 255; what the model expects may differ.
async function pixelsOf(file, tensor) {
  const { height, width, channels, isFirst } = sizesOf(tensor);
  const bitmap = await createImageBitmap(file, { resizeWidth: width, resizeHeight: height, resizeQuality: "high" });
  const canvas = make("canvas", { width, height });
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { data } = context.getImageData(0, 0, width, height);
  const found = [];
  const value = (at, channel) => channels === 1
    ? Math.round(0.299 * data[at] + 0.587 * data[at + 1] + 0.114 * data[at + 2]) : data[at + channel];
  if (isFirst) for (let c = 0; c < channels; c += 1) for (let at = 0; at < data.length; at += 4) found.push(value(at, c));
  else for (let at = 0; at < data.length; at += 4) for (let c = 0; c < channels; c += 1) found.push(value(at, c));
  const shape = tensor.shape.map((size) => (Number(size) === -1 ? 1 : Number(size)));
  return { shape, data: found };
}

// Requests over time, from the pods' own metrics.

async function measure() {
  const at = opened;
  if (at.isMeasuring || document.hidden) return;
  at.isMeasuring = true;
  try {
    const { document: found } = await run("top");
    if (at !== opened) return;
    const known = found.replicas.filter((each) => each.requests);
    const sum = (of) => known.reduce((all, each) => all + of(each), 0);
    at.points.push({
      time: Date.now() / 1000, total: sum((each) => each.requests.total), failed: sum((each) => each.requests.failed),
      seconds: sum((each) => each.requests.seconds), timed: sum((each) => each.requests.timed),
      memory: sum((each) => each.memory || 0), pods: known.map((each) => each.pod).sort().join(),
    });
    at.points = at.points.slice(-120);
    drawPlots(at, known.length, found.notes);
  } catch (error) {
    if (at === opened) $("plots").replaceChildren(make("p", { class: "dim" }, error.message));
  } finally {
    at.isMeasuring = false;
  }
}

function drawPlots(at, replicas, notes) {
  if (!replicas) {
    const why = notes[0] || "The server has no metrics of the bundled runtime.";
    $("plots").replaceChildren(make("p", { class: "dim" }, why));
    return;
  }
  const steps = at.points.slice(1).map((now, i) => [at.points[i], now]).filter(([before, now]) => before.pods === now.pods && now.total >= before.total);
  const rate = (of) => steps.map(([before, now]) => (of(now) - of(before)) / (now.time - before.time));
  const mean = steps.map(([before, now]) => now.timed > before.timed ? 1000 * (now.seconds - before.seconds) / (now.timed - before.timed) : 0);
  const last = at.points[at.points.length - 1];
  $("plots").replaceChildren(
    plot("requests per second", rate((each) => each.total), 1),
    plot("failed per second", rate((each) => each.failed), 1),
    plot("mean latency, ms", mean, 2),
    make("div", { class: "card" }, make("b", {}, String(last.total)), ` requests, ${last.failed} failed, since ${replicas} replicas started`));
}

function plot(title, values, digits) {
  const most = Math.max(...values, 1e-9);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 119 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", title);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const start = 119 - values.length;
  path.setAttribute("d", values.map((value, i) => `${i ? "L" : "M"}${start + i} ${39 - 36 * value / most}`).join(""));
  svg.append(path);
  const last = values.length ? values[values.length - 1].toFixed(digits) : "–";
  return make("div", { class: "card" }, make("b", {}, last), ` ${title}`, svg);
}

// Logs.

let logs = null;

function stopLogs() {
  logs?.abort.abort();
  logs = null;
}

function drawLogs(found) {
  const pods = (found.replicaStatuses || []).map((each) => each.pod);
  const key = pods.join();
  if ($("log").dataset.pods === key) return;
  $("log").dataset.pods = key;
  stopLogs();
  const text = make("pre", { tabindex: "0", "aria-label": "Log" });
  const buttons = pods.map((pod) => make("button", { onclick: () => showLog(pod, text) }, pod));
  $("log").replaceChildren(make("div", { class: "bar" }, ...buttons), pods.length ? text : make("p", { class: "dim" }, "There are no pods."));
}

async function showLog(pod, text) {
  stopLogs();
  const mine = logs = { abort: new AbortController() };
  text.textContent = "";
  try {
    const query = new URLSearchParams({ namespace: opened.namespace, pod });
    const response = await call(`/api/logs?${query}`, { signal: mine.abort.signal });
    for await (const line of lines(response)) {
      const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
      text.append(`${line}\n`);
      while (text.childNodes.length > 2000) text.firstChild.remove();
      if (isAtEnd) text.scrollTop = text.scrollHeight;
    }
    text.append("(the log has ended)\n");
  } catch (error) {
    if (mine === logs) text.append(`${error.message}\n`);
  }
}

// The token leaves the address, and with it the browser's history.
history.replaceState(null, "", location.hash.includes("!") ? `#!${location.hash.split("!")[1]}` : "#");
route();
follow();
