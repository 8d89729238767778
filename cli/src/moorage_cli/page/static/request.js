// The form that sends a model a request.

import { run } from "./connection.js";
import { make, section } from "./elements.js";

export function makeForm(found) {
  if (!found.inputs.length) return "";
  if (!found.sample) {
    const why = "The inputs have too many values for this form, or the datatype BF16, which JSON lacks.";
    return section("Try it", make("p", { class: "dim" }, why));
  }
  const body = make("textarea", { spellcheck: "false", "aria-label": "Request in JSON" });
  body.value = pretty(found.sample);
  const answer = make("pre", { id: "answer", "aria-live": "polite", tabindex: "0", "aria-label": "Answer", hidden: true });
  const tell = (text, tone) => { answer.hidden = false; answer.className = tone; answer.textContent = text; };
  const send = make("button", { class: "act", id: "send" }, "Send");
  send.addEventListener("click", async () => {
    send.disabled = true;
    tell("…", "dim");
    const began = performance.now();
    try {
      JSON.parse(body.value.replace(TOKENS, plain)); // an error of the browser names the place
      // both ways as text: a number of JavaScript has 53 bits
      const done = await run("infer", found, { request: body.value });
      const spent = Math.round(performance.now() - began);
      tell(`${compact(done.text)}\n${spent} ms through the API server`, done.ok ? "" : "bad");
    } catch (error) {
      tell(error.message, "bad");
    }
    send.disabled = false;
    send.focus();
  });
  const pictures = found.inputs.filter(isPicture).map((tensor) => make("label", {}, `${tensor.name} from a picture `,
    make("input", { type: "file", accept: "image/*", onchange: async (event) => {
      const file = event.target.files[0];
      if (!file) return;
      try {
        const request = JSON.parse(body.value, exact);
        Object.assign(request.inputs.find((each) => each.name === tensor.name), await pixelsOf(file, tensor));
        body.value = pretty(request);
      } catch (error) {
        tell(error.message, "bad");
      }
    } })));
  return section("Try it", make("div", { class: "card" }, body, make("div", { class: "bar" }, send, ...pictures), answer));
}

// What protocols have beyond JSON, outside of strings.
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|\b(?:NaN|Infinity)\b/g;
const plain = (found) => (found[0] === '"' ? found : "0");

// JSON with arrays of numbers on one line each. A string may look like such an array, and stays.
const compact = (text) => text.replace(/"[^"\\]*(?:\\.[^"\\]*)*"|\[[\s\d.,eE+-]*\]/g,
  (found) => (found[0] === '"' ? found : found.replace(/\s+/g, "")));
const pretty = (value) => compact(JSON.stringify(value, null, 1));

// Keeps the spelling of a number that JavaScript would round.
function exact(_, value, context) {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return value;
  if (!context) throw new Error(`this browser would round ${value}: use a newer one`);
  return JSON.rawJSON(context.source);
}

function sizesOf(tensor) {
  const shape = (tensor.shape || []).map(Number);
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
