// What a server does that is lost, silent, or lies: nothing of it ends the process, or is waited for without an end.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";

import { status } from "@grpc/grpc-js";

import { DType } from "../src/gen/kiln/v1/dtype_pb.js";
import { Graph, KilnError, connect } from "../src/index.js";
import type { Client } from "../src/index.js";
import { Liar, honest } from "./liar.js";
import type { Say } from "./liar.js";

let liar: Liar;
beforeEach(async () => {
  liar = new Liar();
  await liar.start();
});
afterEach(() => liar.stop());

async function withClient(use: (client: Client) => Promise<void>, options = {}) {
  const client = await connect(liar.address, { timeout: 60_000, ...options });
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const fails = (call: Promise<unknown>, status: string, message = /./) =>
  assert.rejects(call, (error) => error instanceof KilnError && error.status === status && message.test(error.message));

const lost = { code: status.UNAVAILABLE, details: "lost" };
const done = { case: "done" as const, value: {} };

test("a stream that is begun anew under its session numbers on, and tells what went with the first", async () => {
  const numbers: bigint[] = [];
  liar.submit = (request, say, call) => {
    numbers.push(request.commandId);
    if (request.commandId === 2n) {
      call.emit("error", { code: status.ABORTED, details: "another connection has it" });
    } else {
      honest(request, say);
    }
  };
  await withClient(async (client) => {
    const first = client.stream();
    void first.zeros("int32", [1]);
    await fails(first.fence(), "ABORTED");
    const second = client.stream();
    assert.notEqual(second, first);
    await second.zeros("int32", [1]);
    await second.fence();
    assert.deepEqual(numbers, [0n, 1n, 2n, 0n, 3n, 4n]);
  });
});

test("what is not awaited when the stream has ended ends no process; fence tells it", async () => {
  await withClient(async (client) => {
    const stream = client.stream();
    const buffer = await stream.zeros("int32", [1]);
    liar.submit = (_, __, call) => call.emit("error", { code: status.ABORTED, details: "busy" });
    await fails(stream.fence(), "ABORTED");
    void stream.free(buffer);
    void stream.zeros("int32", [1]);
    void stream.upload(Int32Array.of(1));
    // node --test fails by a rejection that nobody handles
    await new Promise((resolve) => setImmediate(resolve));
    await fails(stream.fence(), "ABORTED");
    assert.equal(buffer.freed, false);
  });
});

test("a token that cannot be sent ends the stream with an error", async (t) => {
  await fails(connect(liar.address, { token: "a\nb" }), "INVALID_ARGUMENT", /the token has characters/);
  const folder = mkdtempSync(join(tmpdir(), "kiln-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "good");
  const use = async (client: Client) => {
    liar.submit = (_, __, call) => void call.emit("error", lost);
    const stream = client.stream();
    writeFileSync(tokenFile, "a\nb");
    await fails(stream.fence(), "INVALID_ARGUMENT", /the token has characters/);
  };
  await withClient(use, { tokenFile });
});

test("a command that cannot be written is refused, and harms no other", async () => {
  await withClient(async (client) => {
    liar.compile = () => ({ signature: { parameters: [{ slot: 0, name: "x" }], results: [] } });
    const program = await client.compile(added());
    const stream = client.stream();
    const buffer = await stream.zeros("int32", [4]);
    const upload = stream.upload(new Uint8Array(20 << 20)); // the next waits
    await fails(stream.run(program, [2n ** 70n]), "INVALID_ARGUMENT", /beyond 64 bits/);
    await fails(stream.writeBytes(buffer, -1, new Uint8Array(4)), "INVALID_ARGUMENT");
    await fails(stream.writeBytes(buffer, 13, new Uint8Array(4)), "OUT_OF_RANGE");
    await fails(program.run([2n ** 70n]), "INVALID_ARGUMENT", /beyond 64 bits/);
    assert.throws(() => new Graph().scalar("float32", 2n ** 70n), KilnError);
    await upload;
    await stream.fence();
  });
});

function added(): Graph {
  const g = new Graph();
  g.output(g.param("x", "float32", [4]).add(1));
  return g;
}

test("answers of commands that were not sent, are passed over, or are too long or short, end the stream", async () => {
  const chunk = (length: number) => ({ case: "data" as const, value: new Uint8Array(length) });
  const lies: [RegExp, (id: bigint, say: Say) => void][] = [
    [/the last is 2/, (_, say) => say({ commandId: 1n << 62n, event: done })],
    [/more than the 16 bytes/, (commandId, say) => say({ commandId, more: true, event: chunk(17) })],
    [/sent 8 bytes of command 2, not 16/, (commandId, say) => say({ commandId, event: chunk(8) })],
  ];
  for (const [message, lie] of lies) {
    liar.submit = (request, say) => (request.commandId === 2n ? lie(2n, say) : honest(request, say));
    await withClient(async (client) => {
      const stream = client.stream();
      const buffer = await stream.zeros("float32", [4]);
      await fails(stream.read(buffer), "INTERNAL", message);
      await fails(stream.fence(), "INTERNAL");
    });
  }
  liar.submit = (request, say) => request.command.case === "read" || honest(request, say);
  await withClient(async (client) => {
    const stream = client.stream();
    const read = stream.read(await stream.zeros("float32", [4]));
    await fails(stream.fence(), "INTERNAL", /has not answered 2/);
    await fails(read, "INTERNAL");
  });
});

test("who welcomes and is lost again and again is no server after a lease", async () => {
  liar.leaseSeconds = 1;
  liar.submit = (request, say, call) => {
    honest({ ...request, answer: false }, say);
    if (request.command.case !== "hello") {
      call.emit("error", lost);
    }
  };
  await withClient(async (client) => {
    await fails(client.stream().fence(), "UNAVAILABLE");
    assert.ok(liar.streams < 10, "it waits longer from time to time");
  });
});

test("fence tells that answers were lost", async () => {
  liar.submit = (request, say, call) => {
    if (request.command.case === "hello") {
      const answersLost = liar.streams > 1 ? 1n : 0n;
      say({ event: { case: "welcome", value: { protocol: 1, accepted: answersLost, answersLost } } });
    } else if (liar.streams === 1) {
      call.emit("error", lost);
    } else {
      honest(request, say);
    }
  };
  await withClient(async (client) => {
    const stream = client.stream();
    void stream.zeros("int32", [1]);
    await fails(stream.fence(), "UNAVAILABLE", /whether all commands succeeded is not known/);
    await stream.fence();
  });
});

test("a peer that is silent is left after a lease", async () => {
  liar.leaseSeconds = 1;
  liar.renews = false;
  liar.submit = (request, say) => request.command.case === "hello" && honest(request, say);
  await withClient(async (client) => {
    await fails(client.stream().fence(), "UNAVAILABLE", /does not answer/);
    assert.ok(liar.streams > 1, "it tries another connection");
  });
});

test("a lease of any length is renewed at times that a timer knows", async () => {
  for (const leaseSeconds of [0, 0xffffffff]) {
    liar.leaseSeconds = leaseSeconds;
    const start = performance.now();
    await withClient(async (client) => {
      await new Promise((resolve) => setTimeout(resolve, 300));
      await client.stream().fence();
    });
    assert.ok(liar.renewals <= (performance.now() - start) / 250 + 1, `${liar.renewals} renewals`);
    liar.renewals = 0;
  }
  for (const lease of [-1, NaN, Infinity]) {
    await fails(connect(liar.address, { lease }), "INVALID_ARGUMENT");
  }
});

test("buffers and results are what was asked for", async () => {
  const type = { dtype: DType.FLOAT32, shape: [4n] };
  await withClient(async (client) => {
    await fails(client.allocate(4), "INTERNAL");
    for (const bytes of [1n << 62n, 3n << 30n]) {
      liar.allocate = () => ({ buffer: { handle: 1n, bytes } });
      await fails(client.allocate(16), "INTERNAL");
      liar.allocate = () => ({ buffer: { handle: 1n, bytes, ...type } });
      await fails(client.zeros("float32", [4]), "INTERNAL");
    }
    const parameters = [{ slot: 0, name: "x", ...type, bytes: 16n }];
    const result = { ...type, bytes: 16n };
    liar.compile = () => ({ signature: { parameters, results: [{ ...result, aliases: 7 }] } });
    const given = [new Float32Array(4)];
    await fails(client.stream().run(await client.compile(added()), given), "INTERNAL", /parameter 7/);
    liar.compile = () => ({ signature: { parameters, results: [result, result] } });
    const program = await client.compile(added());
    const one = { value: { case: "buffer" as const, value: { handle: 9n, ...result } } };
    for (const results of [[], [one], [{}, one]]) {
      liar.execute = () => ({ results });
      liar.freed.length = 0;
      await fails(program.run(given), "INTERNAL");
      await fails(program.runKeep(given), "INTERNAL");
      assert.deepEqual(liar.freed, results.length > 0 ? [9n, 9n] : []);
    }
  });
});

test("what a run made is given back when one of its results cannot be read", async () => {
  const row = { dtype: DType.FLOAT32, shape: [1n << 21n], bytes: 8n << 20n };
  liar.compile = () => ({ signature: { parameters: [{ slot: 0, name: "x" }], results: [row, row] } });
  const made = (handle: bigint) => ({ value: { case: "buffer" as const, value: { handle, ...row } } });
  liar.execute = () => ({ results: [made(8n), made(9n)] });
  await withClient(async (client) => {
    const program = await client.compile(added());
    await fails(program.run([1]), "UNIMPLEMENTED"); // it has no Read
  });
  assert.deepEqual(liar.freed, [8n, 9n]);
});

test("a closed client has no stream", async () => {
  const client = await connect(liar.address, { timeout: 60_000 });
  await client.stream().zeros("int32", [1]);
  const closing = client.close();
  assert.throws(
    () => client.stream(),
    (error: KilnError) => error.status === "CANCELLED",
  );
  await closing;
});
