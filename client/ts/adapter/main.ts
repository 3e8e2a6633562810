// The TypeScript client, as the conformance suite drives it: a JSON object a line in, one out. tests/clients/README.md
// says what each request means.
import { createInterface } from "node:readline";

import { KilnError } from "../src/index.js";
import { Adapter } from "./requests.js";
import type { Answer, Ask } from "./requests.js";

/** An error as the suite wants it. */
function told(error: unknown): Answer {
  if (!(error instanceof KilnError)) {
    return { message: error instanceof Error ? error.stack : String(error) };
  }
  const { code, status, message, node, op, tag, slot, field, limit, limitValue, used, retryAfter } = error;
  const said = { code, status, message, node, op, tag, slot, field, limit, used };
  return { ...said, limit_value: limitValue, retry_after_ms: retryAfter };
}

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
