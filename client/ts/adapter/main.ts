// The TypeScript client, as the conformance suite drives it: a JSON object a line in, one out. tests/clients/README.md
// says what each request means.
import { createInterface } from "node:readline";

import { Adapter } from "./requests.js";
import type { Ask } from "./requests.js";
import { told } from "./told.js";
import type { Answer } from "./told.js";

async function answer(adapter: Adapter, ask: Ask): Promise<Answer> {
  const does = adapter.requests[ask.do];
  if (does === undefined) {
    return { unsupported: ask.do };
  }
  const controller = new AbortController();
  const timer = ask.cancel_after_ms && setTimeout(() => controller.abort(), ask.cancel_after_ms);
  try {
    return (await does(ask, { signal: controller.signal, timeout: ask.timeout_ms })) ?? {};
  } catch (error) {
    return { error: told(error) };
  } finally {
    clearTimeout(timer || undefined);
  }
}

const adapter: Adapter = new Adapter((ask) => answer(adapter, ask));
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(adapter, JSON.parse(line) as Ask)) + "\n");
}
process.exit(0);
