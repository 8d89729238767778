// Rate and latency of a model's requests over time, from the pods' own metrics.

import { run } from "./connection.js";
import { draw, make, update } from "./elements.js";

const EVERY_MS = 5000;
const POINTS = 120;

// Measures until the returned function is called.
export function startPlots(model, place) {
  const points = [];
  let isMeasuring = false;
  let isOver = false;
  async function measure() {
    if (isMeasuring || document.hidden) return;
    isMeasuring = true;
    try {
      const { document: found } = await run("top", model);
      if (isOver) return;
      const known = found.replicas.filter((each) => each.requests);
      if (known.length) points.push(pointOf(known));
      points.splice(0, points.length - POINTS);
      const why = whyNone(found);
      update(place, known.length ? plotsOf(points, known.length) : [make("p", { class: "dim" }, why)]);
    } catch (error) {
      if (!isOver) update(place, [make("p", { class: "dim" }, error.message)]);
    } finally {
      isMeasuring = false;
    }
  }
  const timer = setInterval(measure, EVERY_MS);
  measure();
  return () => { isOver = true; clearInterval(timer); };
}

// The metrics API has no requests, so its absence explains nothing here.
function whyNone(found) {
  const note = found.notes.find((each) => !each.includes("metrics.k8s.io"));
  if (note) return note;
  return found.replicas.length ? "No replica has metrics of the bundled runtime." : "There are no replicas.";
}

function pointOf(replicas) {
  const sum = (name) => replicas.reduce((all, each) => all + each.requests[name], 0);
  return {
    time: Date.now() / 1000, pods: replicas.map((each) => each.pod).sort().join(),
    total: sum("total"), failed: sum("failed"), seconds: sum("seconds"), timed: sum("timed"),
  };
}

function plotsOf(points, replicas) {
  // counters of other pods, or of a server that was started again, have no difference
  const steps = points.slice(1).map((now, i) => [points[i], now])
    .filter(([before, now]) => before.pods === now.pods && now.total >= before.total && now.timed >= before.timed);
  const rate = (name) => steps.map(([before, now]) => (now[name] - before[name]) / (now.time - before.time));
  const mean = steps.filter(([before, now]) => now.timed > before.timed)
    .map(([before, now]) => 1000 * (now.seconds - before.seconds) / (now.timed - before.timed));
  const last = points[points.length - 1];
  const since = replicas === 1 ? "the replica" : `the ${replicas} replicas`;
  return [
    plot("requests per second", rate("total")),
    plot("failed requests per second", rate("failed")),
    plot("ms mean latency", mean),
    make("div", { class: "card" }, make("b", {}, String(last.total)), ` requests since ${since} started`,
      make("p", { class: last.failed ? "bad" : "dim" }, `${last.failed} of them failed`)),
  ];
}

function plot(title, values) {
  const most = Math.max(...values, 0);
  const start = POINTS - 1 - values.length;
  const path = values.map((value, i) => `${i ? "L" : "M"}${start + i} ${39 - 36 * value / (most || 1)}`).join("");
  const last = values.length ? short(values[values.length - 1]) : "–";
  const range = values.length ? `0 to ${short(most)} in the last ${duration(values.length * EVERY_MS / 1000)}` : "measuring";
  return make("div", { class: "card" }, make("b", {}, last), ` ${title}`,
    draw("svg", { viewBox: `0 0 ${POINTS - 1} 40`, preserveAspectRatio: "none", role: "img", "aria-label": `${title}: ${last}, ${range}` },
      draw("path", { class: "axis", d: `M0 39H${POINTS - 1}` }), draw("path", { d: path })),
    make("span", { class: "dim" }, range));
}

const short = (value) => (value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 || value === 0 ? 1 : 2));
const duration = (seconds) => (seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`);
