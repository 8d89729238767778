// One model: read again whenever its row changes. Only what differs is drawn again, so that a
// button keeps the focus and a text its selection.

import { call, run } from "./connection.js";
import { byId, make, mark, moment, section, table, update } from "./elements.js";
import { makeLog } from "./log.js";
import { startPlots } from "./plots.js";
import { makeForm } from "./request.js";
import { actionsOf, canaryOf, revisionsOf } from "./rollout.js";
import { titleOf } from "./wall.js";

const PARTS = ["facts", "rollout", "details", "form", "plots", "rest", "log"];

let opened = null;

export function open({ namespace, name }) {
  const parts = Object.fromEntries(PARTS.map((part) => [part, make("div", { class: "part" })]));
  const heading = make("h2", { tabindex: "-1" }, name);
  const outcome = make("p", { id: "outcome", role: "status" });
  const state = make("span", { class: "state" }, "loading");
  const bar = make("div", { class: "bar title" }, heading, make("span", { class: "dim" }, namespace), state);
  byId("model").replaceChildren(
    make("nav", {}, make("a", { href: "#" }, "← All models")), bar, parts.facts, outcome, parts.rollout, parts.details,
    section("Requests", parts.plots), parts.form, parts.rest, section("Log", parts.log));
  parts.plots.className = "plots";
  opened = { namespace, name, parts, bar, state, outcome, isReading: false, isStale: false };
  opened.log = makeLog(opened, parts.log);
  opened.stopPlots = startPlots(opened, parts.plots);
  heading.focus({ preventScroll: true });
  refresh();
}

export function close() {
  opened?.stopPlots();
  opened?.log.close();
  opened = null;
  byId("model").replaceChildren();
}

export async function refresh() {
  const at = opened;
  if (at.isReading) { at.isStale = true; return; }
  at.isReading = true;
  try {
    const query = new URLSearchParams({ namespace: at.namespace, name: at.name });
    const found = await (await call(`/api/model?${query}`)).json();
    const events = await run("events", at).then((each) => each.document, (error) => ({ events: [], problem: error.message }));
    if (at === opened) show(at, found, events);
  } catch (error) {
    if (at !== opened) return;
    // what was read earlier stays, but a model that is deleted has no state
    if (error.status === 404) { at.bar.className = "bar title"; at.state.textContent = "not found"; }
    update(at.parts.facts, [make("p", { class: "bad", role: "alert" }, error.message)]);
  } finally {
    at.isReading = false;
    if (at.isStale && at === opened) { at.isStale = false; refresh(); }
  }
}

function show(at, found, events) {
  const { parts } = at;
  at.bar.className = `bar title ${found.state}`;
  at.state.textContent = titleOf(found);
  update(parts.facts, [
    // a cause has the message as well
    found.causes.length ? "" : make("p", { class: "dim" }, found.message),
    actionsOf(found, at.outcome), ...causesOf(found)]);
  update(parts.rollout, [canaryOf(found), revisionsOf(found, at.outcome)]);
  update(parts.details, [factsOf(found), timingsOf(found)]);
  if (!parts.form.hasChildNodes()) update(parts.form, [makeForm(found)]);
  update(parts.rest, [
    table("Replicas", ["pod", "serves", "revision", "restarts", "reason"], (found.replicaStatuses || []).map((each) =>
      [each.pod, mark(each.ready && each.modelReady ? "True" : "False"), each.revision, String(each.restarts ?? 0),
        [each.reason, each.message].filter(Boolean).join(": ")])),
    found.omittedReplicas ? make("p", { class: "dim" }, `The status omits ${found.omittedReplicas} more replicas.`) : "",
    table("Conditions", ["condition", "status", "reason", "message"], (found.conditions || []).map((each) =>
      [each.type, mark(each.status), each.reason, each.message])),
    table("Tensors", ["direction", "name", "datatype", "shape"], [
      ...found.inputs.map((each) => ["input", each.name, each.datatype, shapeOf(each)]),
      ...found.outputs.map((each) => ["output", each.name, each.datatype, shapeOf(each)])]),
    events.problem ? section("Events", make("p", { class: "dim" }, events.problem)) : "",
    table("Events", ["last", "object", "reason", "message"], events.events.slice(-10).reverse().map((each) =>
      [moment(each.last), `${each.kind}/${each.name}`, each.reason, each.message]))]);
  at.log.show((found.replicaStatuses || []).map((each) => each.pod));
}

const shapeOf = (tensor) => (tensor.shape ? JSON.stringify(tensor.shape.map(Number)) : "any");

function factsOf(found) {
  const facts = [
    ["Model", found.uri], ["Replicas", found.replicas], ["Protocol", found.protocol], ["Version", found.version],
    ["Rollouts", found.strategy], ["Runtime", found.runtime?.name], ["URL", found.url],
    ...(found.endpoints || []).map((each) => [`${each.protocol} ${each.transport}`, each.url])];
  return make("div", { class: "card" }, make("dl", {}, ...facts.filter(([, value]) => value)
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, String(value))))));
}

function causesOf(found) {
  return found.causes.map((cause) => make("div", { class: `card cause ${found.state}` },
    make("strong", {}, cause.reason), " ", make("span", { class: "dim" }, cause.where),
    make("p", {}, cause.message), cause.means ? make("p", { class: "dim" }, cause.means) : null,
    cause.log ? make("pre", { tabindex: "0", "aria-label": "Last lines of the log" }, cause.log) : null,
    cause.do ? make("p", {}, make("strong", {}, "What to do: "), cause.do) : null));
}

function timingsOf(found) {
  const names = { scheduled: "scheduled", artifact: "model fetched", started: "started", modelReady: "model ready", total: "in total" };
  const steps = Object.entries(names).filter(([name]) => found.timings?.[name] != null);
  if (!steps.length) return "";
  return section(`Start of the first replica of revision ${found.timings.revision}`,
    make("ol", { class: "time card" }, ...steps.map(([name, title]) =>
      make("li", {}, make("b", {}, `${(found.timings[name] / 1000).toFixed(1)} s`), title))));
}
