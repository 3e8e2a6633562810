import assert from "node:assert/strict";
import { test } from "node:test";

import { Metadata } from "@grpc/grpc-js";

import { KilnError, connect } from "../src/index.js";
import type { Details, StatusName } from "../src/index.js";
import { GRPCInferenceService } from "../src/gen/inference/grpc_service_pb.js";
import { KernelService } from "../src/gen/kiln/v1/kernel_service_pb.js";
import { fromStatus } from "../src/errors.js";
import { Identity } from "../src/identity.js";
import { Retries } from "../src/retries.js";

const { compile, execute } = KernelService.method;
const { modelInfer, repositoryIndex } = GRPCInferenceService.method;

test("only what is safe is called again", () => {
  const rows: [string, object, StatusName, Details, boolean][] = [
    ["busy", execute, "RESOURCE_EXHAUSTED", { retryAfter: 10 }, true],
    ["full", execute, "RESOURCE_EXHAUSTED", {}, false],
    ["busy for long", execute, "RESOURCE_EXHAUSTED", { retryAfter: 60_000 }, false],
    ["stopping", execute, "UNAVAILABLE", { code: "SHUTTING_DOWN" }, true],
    ["lost, and looked", compile, "UNAVAILABLE", {}, true],
    ["lost, and wrote", execute, "UNAVAILABLE", {}, false],
    ["lost, and looked at models", repositoryIndex, "UNAVAILABLE", {}, true],
    ["lost, and ran a model", modelInfer, "UNAVAILABLE", {}, false],
    ["a participant", compile, "UNAVAILABLE", { code: "PARTICIPANT_MISSING" }, false],
    ["a fault of the graph", compile, "INVALID_ARGUMENT", {}, false],
  ];
  for (const [name, method, status, details, again] of rows) {
    const pause = new Retries().wait(method, new KilnError(status, "", details), 1);
    assert.equal(pause !== undefined, again, name);
    assert.ok(pause === undefined || (pause >= (details.retryAfter ?? 0) && pause <= 3000), name);
  }
});

test("attempts, a deadline and a budget end it", () => {
  const lost = new KilnError("UNAVAILABLE", "");
  const tries = new Retries();
  assert.equal(tries.wait(compile, lost, 3), undefined);
  assert.equal(tries.wait(compile, lost, 1, Date.now() - 1), undefined);
  for (let left = 10; left > 0; left--) {
    assert.notEqual(tries.wait(compile, lost, 1), undefined);
  }
  assert.equal(tries.wait(compile, lost, 1), undefined);
  for (let calls = 0; calls < 11; calls++) {
    tries.earn();
  }
  assert.notEqual(tries.wait(compile, lost, 2), undefined);
});

test("a token stays on this machine unless it is encrypted", () => {
  for (const address of [
    "localhost:1",
    "127.0.0.1:1",
    "[::1]:1",
    "unix:/run/kiln",
    "dns:///localhost:1",
    "ipv6:[::1]:1,[::1]:2",
  ]) {
    assert.equal(new Identity(address, { token: "secret" }).bearer(), "secret");
  }
  const elsewhere = [
    "example.com:1",
    "localhost.example.com:1",
    "10.0.0.1:1",
    "127.example.com:1",
    "dns://a/localhost:1",
  ];
  for (const address of [...elsewhere, "ipv4:127.0.0.1:1,10.0.0.1:1", "ipv6:[::1]:1,[2001:db8::1]:1"]) {
    assert.throws(() => new Identity(address, { token: "secret" }), /where others can read it/);
    assert.equal(new Identity(address, { token: "secret", tls: true }).bearer(), "secret");
    assert.equal(new Identity(address, { token: "secret", insecureToken: true }).bearer(), "secret");
  }
});

test("credentials that cannot be are refused", async () => {
  await assert.rejects(connect("localhost:1", { tls: { certificate: "a" } }), /go together/);
  await assert.rejects(connect("localhost:1", { tls: { authority: "/none" } }), /cannot read \/none/);
  await assert.rejects(connect("localhost:1", { tokenFile: "/none" }), /no token in \/none/);
});

test("details that cannot be read do no harm", () => {
  const metadata = new Metadata();
  metadata.set("grpc-status-details-bin", Buffer.from([0x1a, 0x7f, 0x00]));
  const failed = fromStatus({ code: 5, details: "gone", metadata });
  assert.deepEqual([failed.status, failed.message, failed.code], ["NOT_FOUND", "gone", undefined]);
});

test("an error says where", () => {
  const details = { code: "DTYPE_MISMATCH", node: 2, op: "SUB", tag: "mine" };
  const failed = new KilnError("INVALID_ARGUMENT", "int32 and float32", details);
  assert.equal(String(failed), "DTYPE_MISMATCH: int32 and float32 (node 2, SUB) [mine]");
  assert.equal(String(new KilnError("UNAVAILABLE", "lost")), "UNAVAILABLE: lost");
});

test("why a server cannot be reached is told", async () => {
  await assert.rejects(connect("ipv4:here", { timeout: 100 }), /no server answers at ipv4:here \(.*parse/);
  await assert.rejects(connect("localhost:1", { timeout: NaN }), (error: KilnError) => error.code === "BAD_ARGUMENT");
});

test("a client does not go wherever a server says", () => {
  const anyone = new Identity("host:1", {});
  // That something else encrypts holds for where the user has sent the token.
  const readable = new Identity("host:1", { token: "secret", insecureToken: true });
  const encrypted = new Identity("host:1", { token: "secret", tls: true });
  for (const address of ["gpu1.example:7437", "10.0.0.1:1", "[fe80::1]:1"]) {
    const may = [anyone, encrypted, readable].map((one) => one.mayFollow(address));
    assert.deepEqual(may, [true, true, false], address);
  }
  assert.ok(readable.mayFollow("127.0.0.1:7437"));
  const none = ["", "host", ":1", "host:", "unix:/tmp/x", "xds:host:1", "dns:///host:1", "a..b:1", "a b:1"];
  for (const address of [...none, "ipv4:127.0.0.1:1,10.0.0.1:1", "127.0.0.1:1,10.0.0.1:1"]) {
    assert.ok(!anyone.mayFollow(address), address);
  }
});
