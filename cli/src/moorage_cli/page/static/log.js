// The log of one of a model's pods, as it is written.

import { call, lines } from "./connection.js";
import { make, update } from "./elements.js";

const LINES = 2000;

// Returns {show, close}; `show` offers the pods.
export function makeLog(model, place) {
  const bar = make("div", { class: "bar" });
  const text = make("pre", { id: "lines", tabindex: "0", "aria-label": "Log", hidden: true });
  let abort = new AbortController();
  let chosen = "";
  let names = [];
  let waiting = []; // lines that the next frame draws
  place.replaceChildren(bar, text);

  function show(pods) {
    names = pods;
    if (chosen && !pods.includes(chosen)) chosen = "";
    update(bar, pods.length ? pods.map(button) : [make("p", { class: "dim" }, "There are no pods.")]);
  }

  const button = (pod) =>
    make("button", { "data-key": pod, "aria-pressed": String(pod === chosen), onclick: () => read(pod) }, pod);

  async function read(pod) {
    abort.abort();
    const mine = abort = new AbortController();
    chosen = pod;
    show(names);
    text.hidden = false;
    text.textContent = "";
    waiting = [];
    try {
      const query = new URLSearchParams({ namespace: model.namespace, pod });
      for await (const line of lines(await call(`/api/logs?${query}`, { signal: mine.signal }))) {
        if (mine === abort) add(line);
      }
      if (mine === abort) add("(the log has ended)");
    } catch (error) {
      if (mine === abort) add(error.message);
    }
  }

  function add(line) {
    waiting.push(line);
    if (waiting.length > LINES) waiting.shift();
    if (waiting.length === 1) requestAnimationFrame(drawWaiting);
  }

  // All at once, and each a block of its own: a line that is added changes the layout of no other.
  function drawWaiting() {
    const isAtEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 4;
    text.append(...waiting.map((line) => make("span", {}, `${line}\n`)));
    waiting = [];
    while (text.childNodes.length > LINES) text.firstChild.remove();
    if (isAtEnd) text.scrollTop = text.scrollHeight;
  }

  return { show, close: () => abort.abort() };
}
