// Requests to `moorage ui` or `moorage ui-server`, and the stream of rows that keeps the page live.

import * as signIn from "./sign_in.js";

const RETRY_MS = 2000;
// Three heartbeats of the program: a program or machine that is suspended closes no connection.
const SILENCE_MS = 15000;
const SILENT = signIn.isAsked ? "the page's server does not answer" : "moorage ui does not answer";
const AWAY = `${SILENT}: ${signIn.isAsked
  ? "if a proxy signs you in, reload the page" : "if it has ended, run it again with the same --port"}`;
const HIDDEN = new Error("the tab is hidden");
const ENDED = signIn.isAsked ? "the connection has ended" : "moorage ui has ended: run it again with the same --port";

let token = sessionStorage.getItem("token") || "";
let offered = "";
let stream = new AbortController();

// A program that was started again has another token. The page that opens its URL passes the token
// on to the pages of the same cluster that are still open.
export const cluster = document.documentElement.dataset.cluster;
const channel = new BroadcastChannel("token");
channel.onmessage = ({ data }) => { if (data.cluster === cluster) offered = data.token; };

export const isOther = (given) => !signIn.isAsked && given !== token;

export function takeToken(given) {
  if (signIn.isAsked) return;
  token = given;
  sessionStorage.setItem("token", token);
  channel.postMessage({ cluster, token });
}

export async function call(path, options = {}) {
  const own = signIn.isAsked ? signIn.headers() : { "X-Moorage-Token": token };
  const { signal } = stream;
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...own, ...options.headers } });
  } catch (error) {
    if (error.name === "TypeError") throw new Error(AWAY);
    throw error;
  }
  if (response.status === 401 && !signIn.isAsked && offered && offered !== token) {
    token = offered;
    sessionStorage.setItem("token", token);
    return call(path, options);
  }
  if (response.ok) return response;
  const text = await response.text();
  let sentence = text;
  try { sentence = JSON.parse(text).error; } catch { /* another program's answer */ }
  // a proxy's answer may have no sentence
  const isOver = signIn.isAsked && response.status === 401;
  const error = new Error(sentence || (isOver ? "your session has ended: reload the page" : `HTTP ${response.status}`));
  error.status = response.status;
  // whatever was refused, the stream has the same token, and leads to the sign-in
  if (error.status === 401 && signIn.isAsked && signal === stream.signal) stream.abort(error);
  throw error;
}

export async function run(command, model, fields = {}) {
  const response = await call("/api/do", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ command, namespace: model.namespace, name: model.name, ...fields }),
  });
  return response.json();
}

export async function* lines(response) {
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

// All tabs of a browser share six connections to a server. A hidden tab gives up its stream, so that
// the visible one gets answers.
document.addEventListener("visibilitychange", () => { if (document.hidden) stream.abort(HIDDEN); });
const visibilityChange = () =>
  new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));

// Passes on every message of the program, {lost: sentence} if there are none, and {refused: sentence}
// before it asks the user to sign in.
export async function follow(take) {
  for (;;) {
    while (document.hidden) await visibilityChange();
    const silence = stream = new AbortController();
    let timer = 0;
    let refused = null;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error(SILENT)), SILENCE_MS);
    };
    try {
      wait();
      const query = signIn.namespace() ? `?${new URLSearchParams({ namespace: signIn.namespace() })}` : "";
      for await (const line of lines(await call(`/api/models${query}`, { signal: silence.signal }))) {
        wait();
        take(JSON.parse(line));
      }
      take({ lost: ENDED });
    } catch (error) {
      if (silence.signal.reason === HIDDEN) continue;
      // a stream that breaks off has no text of its own
      const isBroken = error.name === "TypeError";
      if (signIn.isAsked && [400, 401, 403].includes(error.status)) refused = error.message;
      else take({ lost: isBroken ? ENDED : error.message });
    } finally {
      clearTimeout(timer);
    }
    if (refused === null) await new Promise((done) => setTimeout(done, RETRY_MS));
    else {
      take({ refused });
      await signIn.ask(refused);
    }
  }
}
