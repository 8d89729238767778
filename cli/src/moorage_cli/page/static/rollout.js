// The rollout of a model: its canary, its revisions, and the buttons that change it.

import { run } from "./connection.js";
import { byId, draw, make, moment, section, table } from "./elements.js";

const lastGoodOf = (found) => found.revisions.lastGood || "";
const isStuck = (found) => Boolean(found.revisions.candidate) || found.upToDateReason === "RolloutPaused";
const isStep = (found) => found.canary && found.canary.step > 0 && found.canary.step <= found.canary.steps.length;

// A button names the revision that its user sees, so it never changes another one.
const ACTIONS = [
  {
    title: (found) => `Approve step ${found.canary.step} of ${found.canary.steps.length}`, command: "promote", isOffered: isStep,
    fields: (found) => ({ revision: `${found.canary.revision}/${found.canary.step}` }),
    question: (found) => `End step ${found.canary.step} of ${found.canary.steps.length} of revision ${found.canary.revision} and take the next one?`,
  },
  {
    title: () => "Promote", command: "promote", isOffered: (found) => found.canary,
    fields: (found) => ({ revision: found.canary.revision }),
    question: (found) => `Send all requests to revision ${found.canary.revision} without waiting for its remaining steps?`,
  },
  {
    title: () => "Abort", command: "abort", isOffered: (found) => isStuck(found) && lastGoodOf(found),
    fields: (found) => ({ revision: found.revisions.candidate || found.revisions.current }),
    question: (found) => `Give up revision ${found.revisions.candidate || found.revisions.current} and run revision ${lastGoodOf(found)} instead?`,
  },
  {
    title: () => "Roll back", command: "rollback", isOffered: (found) => canRestore(found, lastGoodOf(found)),
    fields: (found) => ({ to: lastGoodOf(found) }), question: (found) => rollbackQuestion(lastGoodOf(found)),
  },
  {
    title: () => "Retry", command: "retry", isOffered: (found) => found.revisions.rejected, fields: () => ({}),
    question: (found) => `Roll out revision ${found.revisions.rejected.revision} once more?`,
  },
  {
    title: () => "Restart", command: "restart", isOffered: () => true, fields: () => ({}),
    question: () => "Replace all pods, in a rollout of the same spec?",
  },
  {
    title: () => "Pause", command: "pause", isOffered: (found) => !found.paused, fields: () => ({}),
    question: () => "Keep the operator from changing the objects of this model?",
  },
  {
    title: () => "Resume", command: "resume", isOffered: (found) => found.paused, fields: () => ({}),
    question: () => "Let the operator change the objects of this model again?",
  },
];

const canRestore = (found, revision) => found.timeline.some((each) => each.revision === revision && each.canRestore);
const rollbackQuestion = (revision) => `Write the spec of revision ${revision} back? It rolls out like any other edit.`;

export function actionsOf(found, outcome) {
  return make("div", { class: "bar" }, ...ACTIONS.filter(({ isOffered }) => isOffered(found)).map((each) =>
    actionOf(found, outcome, each.title(found), each.command, each.fields(found), each.question(found))));
}

// The question is an attribute, so that a button with another question differs.
function actionOf(found, outcome, title, command, fields, question) {
  const act = async () => {
    if (!(await isConfirmed(`${found.namespace}/${found.name}`, question, title))) return;
    outcome.className = "dim";
    outcome.textContent = "…";
    try {
      const done = await run(command, found, fields);
      outcome.className = done.ok ? "good" : "bad";
      outcome.textContent = done.text.trim();
    } catch (error) {
      outcome.className = "bad";
      outcome.textContent = error.message;
    }
  };
  return make("button", { onclick: act, title: question, "data-key": `${command} ${fields.to || title}` }, title);
}

// Each question has a dialog of its own: a browser tells of the end of one only with its next frame,
// which may come late, and would then answer the question after it.
function isConfirmed(name, question, title) {
  const dialog = byId("ask").cloneNode(true);
  byId("ask").replaceWith(dialog);
  const [heading, text] = dialog.querySelectorAll("h2, p");
  heading.textContent = name;
  text.textContent = question;
  dialog.querySelector(".act").textContent = title;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

// The share of the canary, and its steps.
export function canaryOf(found) {
  const { canary } = found;
  if (!canary) return "";
  const rest = 100 - canary.weight;
  const summary = `${canary.weight} % of the requests go to revision ${canary.revision}, ${rest} % to ${canary.earlier || "the earlier one"}`;
  return section("Canary", make("div", { class: "card" },
    make("p", {}, summary),
    draw("svg", { class: "share", viewBox: "0 0 100 4", preserveAspectRatio: "none", role: "img", "aria-label": summary },
      draw("rect", { class: "earlier", x: 0, width: 100, height: 4 }),
      draw("rect", { class: "canary", x: 0, width: canary.weight, height: 4 })),
    make("ol", { class: "steps" }, ...canary.steps.map((step, i) => stepOf(canary, step, i + 1)))));
}

function stepOf(canary, step, number) {
  const pause = step.pauseSeconds == null ? "until you approve it" : `for ${step.pauseSeconds} s`;
  const isCurrent = number === canary.step;
  const state = number < canary.step ? "done" : isCurrent ? (canary.since ? "since " : "not applied by the gateway yet") : "";
  return make("li", { class: isCurrent ? "current" : "", "aria-current": isCurrent ? "step" : null },
    make("b", {}, `${step.weight} %`), ` ${pause}`,
    state ? make("span", { class: "dim" }, ` · ${state}`, isCurrent && canary.since ? moment(canary.since) : "") : "");
}

// The revisions, the newest first.
export function revisionsOf(found, outcome) {
  const rows = found.timeline.map((each) => [
    make("span", { class: "mono" }, each.revision), moment(each.created),
    make("span", { class: each.tone }, each.outcome, each.time ? " " : "", moment(each.time)),
    each.pods, each.detail,
    each.canRestore && !each.isCurrent
      ? actionOf(found, outcome, "Roll back to it", "rollback", { to: each.revision }, rollbackQuestion(each.revision)) : ""]);
  const shown = table("Revisions", ["revision", "created", "outcome", "replicas", "detail", "action"], rows);
  return found.timelineProblem ? section("Revisions", make("p", { class: "dim" }, found.timelineProblem)) : shown;
}
