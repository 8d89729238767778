// The sign-in of a page in a cluster. The token stays in the memory of this tab.

import { byId } from "./elements.js";

const account = { token: "", namespace: "" };

// Whether users sign in: `moorage ui-server` marks the page.
export const isAsked = "signsIn" in document.documentElement.dataset;

export const headers = () => (account.token ? { Authorization: `Bearer ${account.token}` } : {});
export const namespace = () => account.namespace;

let submitted = () => {};

export function start() {
  byId("sign-in").addEventListener("submit", (event) => {
    event.preventDefault();
    const token = byId("sign-in-token").value.trim();
    if (token) account.token = token;
    account.namespace = byId("sign-in-namespace").value.trim();
    byId("sign-in-token").value = "";
    byId("sign-in-why").textContent = "";
    submitted();
  });
}

// Waits for a token and a namespace; the views stay hidden until `done`.
export function ask(why) {
  document.querySelector("main").hidden = true;
  byId("sign-in").hidden = false;
  byId("sign-in-why").textContent = why;
  byId("sign-in-token").focus();
  return new Promise((resolve) => { submitted = resolve; });
}

// Whether the user has signed in just now.
export function done() {
  const was = !byId("sign-in").hidden;
  byId("sign-in").hidden = true;
  document.querySelector("main").hidden = false;
  return was;
}
