// The log of one of a model's pods, as it is written.

import { call, lines } from "./connection.js";
import { make, update } from "./elements.js";

const LINES = 2000;

// Returns {show, close}; `show` offers the pods. A hidden tab gives up its stream, because all tabs of a
// browser share six connections, and reads the last lines again when it is seen.
export function makeLog(model, place) {
  const bar = make("div", { class: "bar" });
  const text = make("pre", { id: "lines", tabindex: "0", "aria-label": "Log", hidden: true });
  let stream = null; // the running one
  let isGivenUp = false;
  let isOutdated = false; // the lines on the page, by those that come
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
    make("button", { "data-key": pod, "aria-pressed": String(pod === chosen), onclick: () => choose(pod) }, pod);

  function choose(pod) {
    chosen = pod;
    show(names);
    text.hidden = false;
    text.textContent = "";
    read();
  }

  async function read() {
    stream?.abort();
    const mine = stream = new AbortController();
    isGivenUp = false;
    isOutdated = true;
    waiting = [];
    let end = "(the log has ended)";
    try {
      const query = new URLSearchParams({ namespace: model.namespace, pod: chosen });
      for await (const line of lines(await call(`/api/logs?${query}`, { signal: mine.signal }))) {
        if (mine === stream) add(line);
      }
    } catch (error) {
      end = error.message;
    }
    if (mine !== stream) return;
    add(end);
    stream = null;
  }

  function giveUp() {
    const given = stream;
    stream = null;
    given?.abort();
    return Boolean(given);
  }

  function turn() {
    if (document.hidden) isGivenUp = giveUp() || isGivenUp;
    else if (isGivenUp && chosen) read();
  }

  function add(line) {
    waiting.push(line);
    if (waiting.length > LINES) waiting.shift();
    if (waiting.length === 1) requestAnimationFrame(drawWaiting);
  }

  // All at once, and each a block of its own: a line that is added changes the layout of no other.
  function drawWaiting() {
    const top = text.scrollTop;
    const isAtEnd = top + text.clientHeight >= text.scrollHeight - 4;
    const isReplaced = isOutdated;
    if (isReplaced) text.replaceChildren();
    isOutdated = false;
    text.append(...waiting.map((line) => make("span", {}, `${line}\n`)));
    waiting = [];
    while (text.childNodes.length > LINES) text.firstChild.remove();
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    else if (isReplaced) text.scrollTop = top;
  }

  document.addEventListener("visibilitychange", turn);
  const close = () => {
    document.removeEventListener("visibilitychange", turn);
    giveUp();
  };
  return { show, close };
}
