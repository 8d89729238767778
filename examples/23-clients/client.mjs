// Asks the model of example 01 which digit a picture shows. Needs Node.js 20 and no packages.
//
//     node examples/23-clients/client.mjs [URL]

import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

const url = process.argv[2] ?? "http://localhost:8000";
const attempts = 3;
const overloaded = 503;

// The data of each output by its name. An overloaded server is asked again, as it requests.
async function infer(model, body) {
  for (let attempt = 1; ; attempt += 1) {
    const response = await fetch(`${url}/v2/models/${model}/infer`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
      signal: AbortSignal.timeout(5000),
    });
    if (response.ok) {
      const { outputs } = await response.json();
      return Object.fromEntries(outputs.map(({ name, data }) => [name, data]));
    }
    const text = await response.text();
    if (response.status !== overloaded || attempt === attempts) {
      throw new Error(`status ${response.status}: ${text}`);
    }
    await pause(1000 * Number(response.headers.get("retry-after") ?? 1));
  }
}

const picture = await readFile(new URL("../01-digits/samples/digit-3.json", import.meta.url));
const { label } = await infer("digits", picture);
console.log("digit:", label[0]);
