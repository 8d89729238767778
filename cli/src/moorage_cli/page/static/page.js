// The page: the wall or one model, whichever the address names. One stream of rows keeps both live.

import { cluster, follow, isOther, takeToken } from "./connection.js";
import { byId } from "./elements.js";
import * as model from "./model.js";
import * as signIn from "./sign_in.js";
import * as wall from "./wall.js";

byId("cluster").textContent = cluster;

let shown = ""; // the key of the model that is shown; empty for the wall

function take(message) {
  if (message.refused !== undefined) {
    byId("live").className = "";
    byId("live").textContent = "not signed in";
    // the next user may not see these
    wall.replaceAll([]);
    model.close();
    shown = "";
    return;
  }
  if (message.lost !== undefined) {
    byId("live").className = "bad";
    byId("live").textContent = `Not live: ${message.lost}`;
    return;
  }
  const { all, put, deleted } = message;
  if (!all && !put && !deleted) return; // a heartbeat
  byId("live").className = "good";
  byId("live").textContent = "live";
  if (all) {
    wall.replaceAll(all);
    if (signIn.done()) route();
  }
  if (put) wall.put(put);
  if (deleted) wall.remove(deleted);
  if (shown && (all || shown === deleted || (put && shown === wall.keyOf(put)))) model.refresh();
}

// A typed address may have a % that is no escape.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// `#TOKEN` is the URL that the program prints, `#!NAMESPACE/NAME` a model. The token leaves the
// address, and with it the browser's history.
function route() {
  const [token, asked] = location.hash.slice(1).split("!");
  if (token) takeToken(token);
  if (token || location.hash === "") history.replaceState(null, "", asked ? `#!${asked}` : "#");
  const [namespace, name] = (asked || "").split("/").map(decoded);
  const key = name ? `${namespace}/${name}` : "";
  if (key && key === shown) return;
  const left = shown;
  shown = key;
  model.close();
  byId("wall").hidden = Boolean(key);
  byId("model").hidden = !key;
  document.title = key ? `${name} – Moorage` : "Moorage";
  scrollTo(0, 0);
  if (key) model.open({ namespace, name });
  else if (left) wall.focusOn(left);
}

document.addEventListener("keydown", (event) => {
  const isTyping = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "/" && !isTyping && !shown) { event.preventDefault(); byId("search").focus(); }
  if (event.key === "Escape" && !byId("ask").open && shown && !isTyping) location.hash = "#";
});
// Another program may serve another cluster, so its URL loads the page again.
window.addEventListener("hashchange", () => {
  const [token] = location.hash.slice(1).split("!");
  if (token && isOther(token)) location.reload();
  else route();
});

wall.start();
signIn.start();
route();
follow(take);
