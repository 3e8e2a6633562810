// Files of constants, and such as cannot be.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { KilnError, readConstants } from "../src/index.js";
import { constantsOf } from "../src/safetensors.js";

function file(header: unknown, data: number[] = []): Uint8Array {
  const text = new TextEncoder().encode(typeof header === "string" ? header : JSON.stringify(header));
  const made = new Uint8Array(8 + text.length + data.length);
  new DataView(made.buffer).setBigUint64(0, BigInt(text.length), true);
  made.set(text, 8);
  made.set(data, 8 + text.length);
  return made;
}

const row = (dtype: string, shape: unknown, data_offsets: unknown) => ({ dtype, shape, data_offsets });

test("constants come from their file", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "kiln-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const path = join(folder, "model.safetensors");
  const rows = { __metadata__: { by: "x" }, "3_w": row("F16", [2, 1], [0, 4]), "12_b_1": row("I8", [], [4, 5]) };
  writeFileSync(path, file(rows, [0, 60, 0, 192, 7]));
  const constants = await readConstants(path);
  assert.deepEqual([...constants.keys()], [3, 12]);
  const [w, b] = [constants.get(3)!, constants.get(12)!];
  assert.deepEqual([w.dtype, w.shape, w.numbers()], ["float16", [2, 1], [1, -2]]);
  assert.deepEqual([b.dtype, b.shape, b.numbers()], ["int8", [], [7]]);
});

test("constants that cannot be are refused", () => {
  const one = row("I8", [1], [0, 1]);
  const bad: Record<string, Uint8Array> = {
    short: Uint8Array.of(1, 2),
    "a huge header": new Uint8Array(16).fill(255),
    "no JSON": file("{"),
    "a list": file([]),
    "no slot": file({ w: one }, [1]),
    "a slot too far": file({ "4294967296_w": one }, [1]),
    "an unknown dtype": file({ "1_w": row("I7", [1], [0, 1]) }, [1]),
    "a dtype of no name": file({ "1_w": null }, [1]),
    "beyond the end": file({ "1_w": row("I8", [2], [0, 2]) }, [1]),
    backwards: file({ "1_w": row("I8", [1], [1, 0]) }, [1]),
    "of another size": file({ "1_w": row("I8", [3], [0, 1]) }, [1]),
    "a negative size": file({ "1_w": row("I8", [-1], [0, 1]) }, [1]),
    "no shape": file({ "1_w": row("I8", "x", [0, 1]) }, [1]),
    "one offset": file({ "1_w": row("I8", [1], [1]) }, [1]),
    twice: file({ "1_a": one, "1_b": one }, [1]),
  };
  for (const [what, data] of Object.entries(bad)) {
    assert.throws(
      () => constantsOf(data),
      (error) => error instanceof KilnError && error.status === "INVALID_ARGUMENT",
      what,
    );
  }
});
