// What a server does that is lost, silent, or lies: nothing of it ends the process, or is waited for without an end.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, beforeEach, test } from "node:test";

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMethod, DescMethodUnary, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import * as grpc from "@grpc/grpc-js";

import { BufferService } from "../src/gen/kiln/v1/buffer_service_pb.js";
import { DeviceService } from "../src/gen/kiln/v1/device_service_pb.js";
import { DType } from "../src/gen/kiln/v1/dtype_pb.js";
import { KernelService, SubmitRequestSchema, SubmitResponseSchema } from "../src/gen/kiln/v1/kernel_service_pb.js";
import type { SubmitRequest } from "../src/gen/kiln/v1/kernel_service_pb.js";
import { SessionService } from "../src/gen/kiln/v1/session_service_pb.js";
import { Graph, KilnError, connect, hash } from "../src/index.js";
import type { Client } from "../src/index.js";

type Call = grpc.ServerDuplexStream<Buffer, Buffer>;
type Say = (answer: MessageInitShape<typeof SubmitResponseSchema>) => void;

// What the server does; each test changes some of it.
interface Ways {
  submit: (request: SubmitRequest, say: Say, call: Call) => void;
  allocate: () => MessageInitShape<typeof BufferService.method.allocate.output>;
  compile: () => MessageInitShape<typeof KernelService.method.compile.output>;
  execute: () => MessageInitShape<typeof KernelService.method.execute.output>;
  renew: (() => void) | "never";
  leaseSeconds: number;
}
let ways: Ways;
let counts: Record<string, number>;
const freed: bigint[] = [];

/** Answers as kilnd does, where nothing is read. */
function honest({ command, commandId, answer }: SubmitRequest, say: Say) {
  if (command.case === "hello") {
    say({ event: { case: "welcome", value: { protocol: 1 } } });
  } else if (answer) {
    say({ commandId, event: { case: "done", value: {} } });
  }
}

const count = (name: string) => (counts[name] = (counts[name] ?? 0) + 1);

function definition(method: DescMethod, isStream = false): grpc.MethodDefinition<Buffer, Buffer> {
  const path = `/${method.parent.typeName}/${method.name}`;
  const [to, from] = [(bytes: Buffer) => bytes, (bytes: Buffer) => bytes];
  const both = { requestSerialize: to, requestDeserialize: from, responseSerialize: to, responseDeserialize: from };
  return { path, requestStream: isStream, responseStream: isStream, ...both };
}

const server = new grpc.Server();

function serve<M extends DescMethodUnary>(
  method: M,
  answer: (request: MessageShape<M["input"]>) => MessageInitShape<M["output"]> | undefined,
) {
  server.addService({ [method.name]: definition(method) }, {
    [method.name]: (call: grpc.ServerUnaryCall<Buffer, Buffer>, callback: grpc.sendUnaryData<Buffer>) => {
      count(method.name);
      const said = answer(fromBinary(method.input, call.request) as MessageShape<M["input"]>);
      if (said !== undefined) {
        callback(null, Buffer.from(toBinary(method.output, create(method.output, said))));
      }
    },
  } as grpc.UntypedServiceImplementation);
}

const devices = { protocolMin: 1, protocolMax: 1, features: ["sessions", "submit"], devices: [{ name: "CPU:0" }] };
serve(DeviceService.method.list, () => devices);
serve(SessionService.method.open, () => ({ token: new Uint8Array(16), leaseSeconds: ways.leaseSeconds }));
serve(SessionService.method.renew, () => (ways.renew === "never" ? undefined : (ways.renew(), {})));
serve(SessionService.method.close, () => ({}));
serve(BufferService.method.allocate, () => ways.allocate());
serve(BufferService.method.free, ({ handle }) => (freed.push(...handle), {}));
serve(KernelService.method.compile, ({ graph }) => ({ graphHash: hash(graph!), ...ways.compile() }));
serve(KernelService.method.execute, () => ways.execute());
server.addService({ Submit: definition(KernelService.method.submit, true) }, {
  Submit: (call: Call) => {
    count("Submit");
    const say: Say = (answer) => {
      call.write(Buffer.from(toBinary(SubmitResponseSchema, create(SubmitResponseSchema, answer))));
    };
    call.on("error", () => {});
    call.on("end", () => call.end());
    call.on("data", (bytes: Buffer) => ways.submit(fromBinary(SubmitRequestSchema, bytes), say, call));
  },
} as grpc.UntypedServiceImplementation);

let address: string;
before(async () => {
  address = await new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, port) =>
      error === null ? resolve(`127.0.0.1:${port}`) : reject(error),
    );
  });
});
after(() => server.forceShutdown());
beforeEach(() => {
  counts = {};
  const nothing = () => ({});
  ways = { submit: honest, allocate: nothing, compile: nothing, execute: nothing, renew: () => {}, leaseSeconds: 30 };
});

async function withClient(use: (client: Client) => Promise<void>, options = {}) {
  const client = await connect(address, { timeout: 60_000, ...options });
  try {
    await use(client);
  } finally {
    await client.close();
  }
}

const fails = (call: Promise<unknown>, status: string, message = /./) =>
  assert.rejects(call, (error) => error instanceof KilnError && error.status === status && message.test(error.message));

const lost = { code: grpc.status.UNAVAILABLE, details: "lost" };
const done = { case: "done" as const, value: {} };

test("a stream that is begun anew under its session numbers on, and tells what went with the first", async () => {
  const numbers: bigint[] = [];
  ways.submit = (request, say, call) => {
    numbers.push(request.commandId);
    if (request.commandId === 2n) {
      call.emit("error", { code: grpc.status.ABORTED, details: "another connection has it" });
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
    ways.submit = (_, __, call) => call.emit("error", { code: grpc.status.ABORTED, details: "busy" });
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
  await fails(connect(address, { token: "a\nb" }), "INVALID_ARGUMENT", /the token has characters/);
  const folder = mkdtempSync(join(tmpdir(), "kiln-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const tokenFile = join(folder, "token");
  writeFileSync(tokenFile, "good");
  const use = async (client: Client) => {
    ways.submit = (_, __, call) => void call.emit("error", lost);
    const stream = client.stream();
    writeFileSync(tokenFile, "a\nb");
    await fails(stream.fence(), "INVALID_ARGUMENT", /the token has characters/);
  };
  await withClient(use, { tokenFile });
});

test("a command that cannot be written is refused, and harms no other", async () => {
  await withClient(async (client) => {
    const { link } = client.stream() as unknown as { link: unknown };
    assert.equal(link, undefined); // it is nobody's
    ways.compile = () => ({ signature: { parameters: [{ slot: 0, name: "x" }], results: [] } });
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
    ways.submit = (request, say) => (request.commandId === 2n ? lie(2n, say) : honest(request, say));
    await withClient(async (client) => {
      const stream = client.stream();
      const buffer = await stream.zeros("float32", [4]);
      await fails(stream.read(buffer), "INTERNAL", message);
      await fails(stream.fence(), "INTERNAL");
    });
  }
  ways.submit = (request, say) => request.command.case === "read" || honest(request, say);
  await withClient(async (client) => {
    const stream = client.stream();
    const read = stream.read(await stream.zeros("float32", [4]));
    await fails(stream.fence(), "INTERNAL", /has not answered 2/);
    await fails(read, "INTERNAL");
  });
});

test("who welcomes and is lost again and again is no server after a lease", async () => {
  ways.leaseSeconds = 1;
  ways.submit = (request, say, call) => {
    honest({ ...request, answer: false }, say);
    if (request.command.case !== "hello") {
      call.emit("error", lost);
    }
  };
  await withClient(async (client) => {
    await fails(client.stream().fence(), "UNAVAILABLE");
    assert.ok(counts.Submit! < 10, "it waits longer from time to time");
  });
});

test("fence tells that answers were lost", async () => {
  ways.submit = (request, say, call) => {
    if (request.command.case === "hello") {
      const answersLost = counts.Submit! > 1 ? 1n : 0n;
      say({ event: { case: "welcome", value: { protocol: 1, accepted: answersLost, answersLost } } });
    } else if (counts.Submit === 1) {
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
  ways.leaseSeconds = 1;
  ways.renew = "never";
  ways.submit = (request, say) => request.command.case === "hello" && honest(request, say);
  await withClient(async (client) => {
    await fails(client.stream().fence(), "CANCELLED");
    assert.ok(counts.Submit! > 1, "it tries another connection");
  });
});

test("a lease of any length is renewed at times that a timer knows", async () => {
  for (const leaseSeconds of [0, 0xffffffff]) {
    ways.leaseSeconds = leaseSeconds;
    await withClient(async (client) => {
      const before = counts.Renew ?? 0;
      await new Promise((resolve) => setTimeout(resolve, 100));
      assert.equal(counts.Renew ?? 0, before);
      await client.stream().fence();
    });
  }
  for (const lease of [-1, NaN, Infinity]) {
    await fails(connect(address, { lease }), "INVALID_ARGUMENT");
  }
});

test("buffers and results are what was asked for", async () => {
  const type = { dtype: DType.FLOAT32, shape: [4n] };
  await withClient(async (client) => {
    await fails(client.allocate(4), "INTERNAL");
    for (const bytes of [1n << 62n, 3n << 30n]) {
      ways.allocate = () => ({ buffer: { handle: 1n, bytes } });
      await fails(client.allocate(16), "INTERNAL");
      ways.allocate = () => ({ buffer: { handle: 1n, bytes, ...type } });
      await fails(client.zeros("float32", [4]), "INTERNAL");
    }
    const parameters = [{ slot: 0, name: "x", ...type, bytes: 16n }];
    const result = { ...type, bytes: 16n };
    ways.compile = () => ({ signature: { parameters, results: [{ ...result, aliases: 7 }] } });
    const given = [new Float32Array(4)];
    await fails(client.stream().run(await client.compile(added()), given), "INTERNAL", /parameter 7/);
    ways.compile = () => ({ signature: { parameters, results: [result, result] } });
    const program = await client.compile(added());
    const one = { value: { case: "buffer" as const, value: { handle: 9n, ...result } } };
    for (const results of [[], [one], [{}, one]]) {
      ways.execute = () => ({ results });
      freed.length = 0;
      await fails(program.run(given), "INTERNAL");
      await fails(program.runKeep(given), "INTERNAL");
      assert.deepEqual(freed, results.length > 0 ? [9n, 9n] : []);
    }
  });
});

test("a closed client has no stream", async () => {
  const client = await connect(address, { timeout: 60_000 });
  await client.stream().zeros("int32", [1]);
  const closing = client.close();
  assert.throws(
    () => client.stream(),
    (error: KilnError) => error.status === "CANCELLED",
  );
  await closing;
});
