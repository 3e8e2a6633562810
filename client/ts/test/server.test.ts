// With a server: KILN_ADDR names it, as tests/clients/ts_client_test.py does.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Graph, KilnError, array, connect } from "../src/index.js";
import type { Argument, Arguments, Client, DeviceBuffer } from "../src/index.js";
import { DebugService } from "kiln/v1/debug_service";

const skip = process.env.KILN_ADDR === undefined && "KILN_ADDR names no server";
const minute = { timeout: 60_000 };
let client: Client;
before(async () => {
  if (!skip) {
    client = await connect("", minute);
  }
});
after(() => client?.close());

async function ran(g: Graph, given: Arguments): Promise<number[][]> {
  const results = await (await client.compile(g)).run(given);
  return results.map((one) => one.numbers());
}

const counted = (count: number) => Float32Array.from({ length: count }, (_, at) => (at % 7) - 3);

test("a convolution is a loop over windows", { skip }, async () => {
  const [n, c, o, h, w, kh, kw, pad] = [2, 3, 4, 6, 5, 3, 2, 1];
  for (const stride of [1, 2, 3]) {
    const g = new Graph();
    const images = g.param("x", "float32", [n, c, h, w]);
    const how = { stride: [stride, stride], padding: [pad, pad] } as const;
    g.output(images.conv2d(g.param("w", "float32", [o, c, kh, kw]), how));
    const [x, weight] = [counted(n * c * h * w), counted(o * c * kh * kw)];
    const wanted: number[] = [];
    for (let image = 0; image < n; image++) {
      for (let out = 0; out < o; out++) {
        for (let top = -pad; top + kh <= h + pad; top += stride) {
          for (let left = -pad; left + kw <= w + pad; left += stride) {
            let sum = 0;
            for (let at = 0; at < c * kh * kw; at++) {
              const [channel, y, z] = [Math.floor(at / (kh * kw)), top + (Math.floor(at / kw) % kh), left + (at % kw)];
              const inside = y >= 0 && y < h && z >= 0 && z < w;
              sum += inside ? x[((image * c + channel) * h + y) * w + z]! * weight[out * c * kh * kw + at]! : 0;
            }
            wanted.push(sum);
          }
        }
      }
    }
    assert.deepEqual(
      await ran(g, [array(x, [n, c, h, w]), array(weight, [o, c, kh, kw])]),
      [wanted],
      `stride ${stride}`,
    );
  }
});

test("pools, calls, places and numbers in a row", { skip }, async () => {
  const g = new Graph();
  g.output(g.param("x", "float32", [1, 1, 4, 5]).maxPool2d(2, 2));
  const body = new Graph();
  body.output(body.param("a", "float32", [3]).mul(body.param("b", "float32", [3])));
  const y = g.param("y", "float32", [3]);
  g.output(...g.call(body, g.call(body, y, y)[0]!, y));
  const rows = g.param("rows", "float32", [2, 3]);
  g.output(rows.argMax(-1), g.arange("int64", 11), rows.transpose().mean([0]).detach(), rows.less(3).where(rows, 9));
  const picture = [1, 2, 3, 4, 9, 5, 6, 7, 8, 9, 0, 0, -1, -2, 9, 0, 1, -3, -4, 9];
  const given = {
    x: array(picture, [1, 1, 4, 5]),
    y: Float32Array.of(1, 2, 3),
    rows: array([1, 5, 5, 7, 2, 3], [2, 3]),
  };
  const results = await ran(g, given);
  const numbers = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10];
  assert.deepEqual(results.slice(0, 4), [[6, 8, 1, -1], [1, 8, 27], [1, 0], numbers]);
  results[4]!.forEach((mean, at) => assert.ok(Math.abs(mean - [11 / 3, 4][at]!) < 1e-6));
  assert.deepEqual(results[5], [1, 9, 9, 9, 2, 9]);
});

test("narrow floats are computed wide, and rounded once", { skip }, async () => {
  const count = 70_000; // more than the greatest of float16
  const g = new Graph();
  const x = g.param("x", "float16", [count]);
  g.output(x.mean(), x.softmax(0).max(), x.logSoftmax(0).max());
  const results = await ran(g, [array(new Uint16Array(count).fill(0x3c00), [count], "float16")]);
  const wanted = [1, 1 / count, -Math.log(count)];
  results.forEach(([one], at) => assert.ok(Math.abs(one! / wanted[at]! - 1) < 0.005, `${one}, not ${wanted[at]}`));
});

test("a buffer whose free was given up can be freed; one that is named twice is freed once", { skip }, async () => {
  const buffer = await client.allocate(16);
  await assert.rejects(
    buffer.free({ signal: AbortSignal.abort() }),
    (error: KilnError) => error.status === "CANCELLED",
  );
  await buffer.free();
  await assert.rejects(buffer.read(), (error: KilnError) => error.status === "NOT_FOUND");
  const stream = client.stream();
  const twice = await stream.upload(Int32Array.of(1));
  await stream.free(twice, twice);
  await stream.fence();
});

test("many calls have one signal, and results memory of their own", { skip }, async () => {
  const warnings: Error[] = [];
  const listener = (warning: Error) => warnings.push(warning);
  process.on("warning", listener);
  const buffer = await client.upload(Float32Array.of(1, 2));
  const { signal } = new AbortController();
  await Promise.all(Array.from({ length: 30 }, () => buffer.read({ signal })));
  const g = new Graph();
  g.output(g.param("x", "float32", [2]).add(1));
  const [sum] = await (await client.compile(g)).run([Float32Array.of(1, 2)]);
  assert.equal(sum!.bytes.buffer.byteLength, 8);
  assert.equal((await client.stream().read(buffer)).bytes.buffer.byteLength, 8);
  process.off("warning", listener);
  assert.deepEqual(warnings, []);
});

test("arguments have names, and are checked", { skip }, async () => {
  const g = new Graph();
  g.output(g.param("x", "int32", [2]).sub(g.param("y", "int32", [2])));
  const [five, two] = [Int32Array.of(5, 5), Int32Array.of(2, 2)];
  assert.deepEqual(await ran(g, { y: two, x: five }), [[3, 3]]);
  const refused: [Arguments, string][] = [
    [{ x: five, z: two }, "UNKNOWN_ARGUMENT"],
    [[five, two, two], "UNKNOWN_ARGUMENT"],
    [[five], "MISSING_ARGUMENT"],
    [[five, "two" as unknown as Argument], "BAD_ARGUMENT"],
  ];
  for (const [given, code] of refused) {
    await assert.rejects(ran(g, given), (error: KilnError) => error.code === code);
  }
});

test("arrays of more than a message go through buffers, and come chunk by chunk", { skip }, async () => {
  const count = 3 << 20;
  const g = new Graph();
  g.output(g.param("x", "float32", [count]).add(1));
  const x = counted(count);
  const [result] = await (await client.compile(g)).run([x]);
  assert.ok(result!.values.every((value: number | bigint, at: number) => value === x[at]! + 1));
  const buffer = await client.upload(x);
  let [chunks, bytes] = [0, 0];
  for await (const part of buffer.chunks(4)) {
    assert.ok(part.length <= 1 << 20);
    [chunks, bytes] = [chunks + 1, bytes + part.length];
  }
  assert.deepEqual([chunks, bytes], [12, 4 * count - 4]);
  for await (const part of buffer.chunks()) {
    assert.ok(part.length > 0);
    break; // the rest does not come
  }
  await buffer[Symbol.asyncDispose]();
  await assert.rejects(buffer.read(), (error: KilnError) => error.status === "NOT_FOUND");
});

test("commands take effect in the order of their calls, awaited or not", { skip }, async () => {
  const g = new Graph();
  const x = g.param("x", "int32", [4]);
  g.update(x, x.add(1));
  const program = await client.compile(g);
  const stream = client.stream();
  const many = Array.from({ length: 8 }, async (_, start) => {
    const buffer = await stream.upload(Int32Array.of(start, 0, 0, 0));
    const runs = Array.from({ length: 400 }, () => stream.run(program, [buffer]));
    const read = stream.read(buffer);
    await Promise.all([...runs, stream.free(buffer)]);
    assert.deepEqual((await read).numbers(), [start + 400, 400, 400, 400]);
  });
  await Promise.all(many);
  await stream.fence();
});

test("what is given up ends", { skip }, async () => {
  const buffer = await client.allocate(16, minute);
  const large = await client.allocate(64 << 20);
  const underWay = (call: (signal: AbortSignal) => Promise<unknown>) => {
    const controller = new AbortController();
    const called = call(controller.signal);
    setImmediate(() => controller.abort());
    return called;
  };
  const signal = AbortSignal.abort();
  const givenUp: (() => Promise<unknown>)[] = [
    () => client.upload(Int32Array.of(1), { signal }),
    () => buffer.writeBytes(0, new Uint8Array(16), { signal }),
    () => buffer.read({ signal }),
    () => connect("", { signal }),
    () => client.stream().fence({ signal }),
    () => underWay((signal) => large.writeBytes(0, new Uint8Array(large.bytes), { signal })),
    () => underWay((signal) => large.read({ signal })),
  ];
  for (const call of givenUp) {
    await assert.rejects(call, (error: KilnError) => error.status === "CANCELLED");
  }
  const late = AbortSignal.timeout(0);
  await new Promise((resolve) => late.addEventListener("abort", resolve));
  await assert.rejects(buffer.read({ signal: late }), (error: KilnError) => error.status === "DEADLINE_EXCEEDED");
  await assert.rejects(large.read({ timeout: 0 }), (error: KilnError) => error.status === "DEADLINE_EXCEEDED");
  await buffer.fill(Uint8Array.of(7));
  assert.deepEqual((await buffer.read()).numbers(), Array(16).fill(7));
  await assert.rejects(buffer.readBytes(8, 9), (error: KilnError) => error.code === "OUT_OF_BOUNDS");
  await assert.rejects(client.allocate(-1), (error: KilnError) => error.code === "BAD_ARGUMENT");
  await buffer.free();
  await buffer.free();
});

test("a call is part of its trace", { skip }, async () => {
  const id = "0af7651916cd43dd8448eb211c80319c";
  await client.allocate(16, { traceparent: `00-${id}-b7ad6b7169203331-01` });
  const { calls } = await client.call(DebugService.method.trace, {});
  assert.ok(calls.some((call) => Buffer.from(call.traceId).toString("hex") === id));
});

test("a client is closed once, with what it has under way", { skip }, async () => {
  const other = await connect("", minute);
  const made: DeviceBuffer = await other.stream().upload(Int32Array.of(1, 2));
  await Promise.all([other.close(), other.close()]);
  await assert.rejects(other.allocate(16), (error: KilnError) => error.status === "CANCELLED");
  await assert.rejects(made.read(), (error: KilnError) => error.status === "CANCELLED");
});
