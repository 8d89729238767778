// Requests to `moorage ui`, and the stream of rows that keeps the page live.

const RETRY_MS = 2000;
// Three heartbeats of the program: a program or machine that is suspended closes no connection.
const SILENCE_MS = 15000;

let token = sessionStorage.getItem("token") || "";
let offered = "";

// A program that was started again has another token. The page that opens its URL passes the token
// on to the pages that are still open.
const channel = new BroadcastChannel("token");
channel.onmessage = (event) => { offered = String(event.data); };

export function takeToken(given) {
  token = given;
  sessionStorage.setItem("token", token);
  channel.postMessage(token);
}

export async function call(path, options = {}) {
  const headers = { "X-Moorage-Token": token, ...options.headers };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "TypeError") throw new Error("moorage ui does not answer: if it has ended, run it again with the same --port");
    throw error;
  }
  if (response.status === 401 && offered && offered !== token) {
    token = offered;
    sessionStorage.setItem("token", token);
    return call(path, options);
  }
  if (response.ok) return response;
  const text = await response.text();
  let sentence = text;
  try { sentence = JSON.parse(text).error; } catch { /* another program's answer */ }
  throw new Error(sentence || `HTTP ${response.status}`);
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

// Passes on every message of the program, and {lost: sentence} if there are none.
export async function follow(take) {
  for (;;) {
    const silence = new AbortController();
    let timer = 0;
    const wait = () => {
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(new Error("moorage ui does not answer")), SILENCE_MS);
    };
    try {
      wait();
      for await (const line of lines(await call("/api/models", { signal: silence.signal }))) {
        wait();
        take(JSON.parse(line));
      }
      take({ lost: "moorage ui has ended: run it again with the same --port" });
    } catch (error) {
      // a stream that breaks off has no text of its own
      const isBroken = error.name === "TypeError";
      take({ lost: isBroken ? "moorage ui has ended: run it again with the same --port" : error.message });
    } finally {
      clearTimeout(timer);
    }
    await new Promise((done) => setTimeout(done, RETRY_MS));
  }
}
