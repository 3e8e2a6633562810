// Served models: how arrays become messages, what answers are believed, and what a stream of requests withstands.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { create } from "@bufbuild/protobuf";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";

import { ModelInferResponseSchema } from "../src/gen/inference/grpc_service_pb.js";
import type { ModelInferRequest } from "../src/gen/inference/grpc_service_pb.js";
import { dtypes } from "../src/dtype.js";
import { outputsOf, requestOf, tensorsOf } from "../src/modelmessages.js";
import { KilnError, NdArray, array, connect } from "../src/index.js";
import type { Client, DType, ModelStream } from "../src/index.js";
import { Liar } from "./liar.js";
import type { Told } from "./liar.js";

type Answer = MessageInitShape<typeof ModelInferResponseSchema>;

const told = (status: string, message: RegExp) => (error: unknown) =>
  error instanceof KilnError && error.status === status && message.test(error.message);
const believed = (said: Answer, wanted: string[] = []) => outputsOf(create(ModelInferResponseSchema, said), wanted);
const four = (length = 4) => new Uint8Array(length);
const output = (datatype: string, shape: bigint[], name = "y") => ({ name, datatype, shape });

test("arrays go by name, each with its type, its shape and its own bytes", () => {
  const x = array(Float32Array.of(1, 2), [1, 2]);
  const given = { x, ids: BigInt64Array.of(7n) };
  const request = requestOf("m", "3", given, { outputs: ["y"] }, "mine");
  assert.deepEqual([request.modelName, request.modelVersion, request.id], ["m", "3", "mine"]);
  assert.deepEqual(request.inputs, [
    { name: "x", datatype: "FP32", shape: [1n, 2n] },
    { name: "ids", datatype: "INT64", shape: [1n] },
  ]);
  assert.equal(request.rawInputContents![0], x.bytes);
  assert.deepEqual(request.rawInputContents![1], Uint8Array.of(7, 0, 0, 0, 0, 0, 0, 0));
  assert.deepEqual(request.outputs, [{ name: "y" }]);
  assert.deepEqual(request.parameters, {});
});

test("a sequence is told by 64 bits, and what of it is told alone", () => {
  const parameters = (id: number | bigint, more = {}) =>
    requestOf("m", "", {}, { sequence: { id, ...more } }, "").parameters!;
  const flag = { parameterChoice: { case: "boolParam", value: true } };
  const number = (value: bigint) => ({ parameterChoice: { case: "uint64Param", value } });
  assert.deepEqual(parameters(7), { sequence_id: number(7n) });
  assert.deepEqual(parameters(2n ** 64n - 1n, { start: true }), {
    sequence_id: number(2n ** 64n - 1n),
    sequence_start: flag,
  });
  assert.deepEqual(parameters(1, { start: false, end: true }), { sequence_id: number(1n), sequence_end: flag });
  for (const id of [1.5, NaN, 2 ** 60]) {
    assert.throws(() => parameters(id), told("INVALID_ARGUMENT", /whole number/));
  }
});

test("what no served model takes is refused here", () => {
  const narrow = new NdArray("float8_e4m3", [4], four());
  assert.throws(
    () => requestOf("m", "", { x: narrow }, {}, ""),
    (error: KilnError) => error.code === "DTYPE_MISMATCH" && error.field === "x",
  );
  assert.throws(() => requestOf("m", "", { x: [1] as never }, {}, ""), told("INVALID_ARGUMENT", /"x" is no array/));
  // As large as it need be, without its memory.
  const vast = Object.defineProperty(new NdArray("int8", [4], four()), "bytes", { value: { length: 2 ** 30 } });
  const request = () => requestOf("m", "", { a: vast, b: vast }, {}, "");
  assert.throws(request, told("RESOURCE_EXHAUSTED", /2147483648 bytes/));
});

test("every dtype that models have comes back as it went", () => {
  const rows = (Object.keys(dtypes) as DType[]).filter((dtype) => dtypes[dtype].datatype !== undefined);
  assert.equal(rows.length, 13);
  for (const dtype of rows) {
    const content = Uint8Array.from({ length: 2 * dtypes[dtype].bytes }, (_, at) => at % 2);
    const request = requestOf("m", "", { y: new NdArray(dtype, [2, 1], content) }, {}, "");
    const said = { outputs: [output(dtypes[dtype].datatype!, [2n, 1n])], rawOutputContents: request.rawInputContents! };
    assert.deepEqual(believed(said), { y: new NdArray(dtype, [2, 1], content) });
  }
});

test("an array has memory of its own, whatever came with it", () => {
  const content = new Uint8Array(new ArrayBuffer(64), 3, 8).fill(1);
  const { y } = believed({ outputs: [output("FP32", [2n])], rawOutputContents: [content] });
  assert.equal(y!.bytes.buffer.byteLength, 8);
  assert.equal(y!.values.buffer, y!.bytes.buffer);
});

test("answers that cannot be are no arrays", () => {
  const lies: [RegExp, Answer][] = [
    [/gave 1 outputs, and the contents of 0/, { outputs: [output("FP32", [1n])] }],
    [/gave 0 outputs, and the contents of 1/, { rawOutputContents: [four()] }],
    [/"y" as 3 bytes of float32/, { outputs: [output("FP32", [1n])], rawOutputContents: [four(3)] }],
    [/"y" as 4 bytes of float32/, { outputs: [output("FP32", [-1n, -1n])], rawOutputContents: [four()] }],
    [/"y" as 4 bytes of int8/, { outputs: [output("INT8", [1n << 62n])], rawOutputContents: [four()] }],
    [/type "BYTES"/, { outputs: [output("BYTES", [1n])], rawOutputContents: [four()] }],
    [/type ""/, { outputs: [output("", [1n])], rawOutputContents: [four()] }],
    [/"y" twice/, { outputs: [output("INT8", [4n]), output("INT8", [4n])], rawOutputContents: [four(), four()] }],
  ];
  for (const [message, lie] of lies) {
    assert.throws(() => believed(lie), told("INTERNAL", message));
  }
  const one = { outputs: [output("INT8", [4n])], rawOutputContents: [four()] };
  assert.throws(() => believed(one, ["y", "z"]), told("INTERNAL", /"z", which was asked for/));
  const odd = believed({ ...one, outputs: [output("INT8", [4n], "__proto__")] });
  assert.deepEqual(Object.keys(odd), ["__proto__"]);
  const row = { name: "x", datatype: "FP4", shape: [] };
  assert.throws(() => tensorsOf([row as never]), told("INTERNAL", /type "FP4"/));
});

let liar: Liar;
let client: Client;
beforeEach(async () => {
  liar = new Liar();
  await liar.start();
  client = await connect(liar.address, { timeout: 60_000 });
});
afterEach(async () => {
  await client.close();
  liar.stop();
});

/** What the request was, as the answer to it. */
function honest({ id, inputs, rawInputContents }: ModelInferRequest): Answer {
  const outputs = inputs.map(({ name, datatype, shape }) => ({ name, datatype, shape }));
  return { id, outputs, rawOutputContents: rawInputContents };
}

async function begun(options = {}): Promise<ModelStream> {
  return (await client.model("m")).stream(options);
}

const x = (value: number) => ({ x: Int32Array.of(value) });

test("a model of a type that is not known is told when it is asked for", async () => {
  liar.metadata = () => ({ inputs: [{ name: "x", datatype: "FP4", shape: [] }] });
  await assert.rejects(client.model("m"), told("INTERNAL", /"x" is of the type "FP4"/));
});

test("answers of a stream are matched by their numbers; one that comes twice does no harm", async () => {
  liar.inferStream = (request, say) => {
    say({ inferResponse: honest(request) });
    say({ inferResponse: honest(request) });
  };
  const stream = await begun();
  const answers = await Promise.all([1, 2, 3].map((value) => stream.infer(x(value))));
  assert.deepEqual(
    answers.map(({ x }) => x!.numbers()),
    [[1], [2], [3]],
  );
  await stream.close();
});

test("a request that fails, or is answered wrongly, ends itself alone", async () => {
  liar.inferStream = (request, say) => {
    const lies: Parameters<Told>[0][] = [{ errorMessage: "so it is" }, {}, { inferResponse: { outputs: [{}] } }];
    say(lies[Number(request.id) - 1] ?? { inferResponse: honest(request) });
  };
  const stream = await begun();
  const answers = [1, 2, 3, 4].map((value) => stream.infer(x(value)));
  await assert.rejects(stream.infer({ x: "no array" as never }), told("INVALID_ARGUMENT", /no array/));
  await assert.rejects(answers[0]!, told("UNKNOWN", /^so it is$/));
  await assert.rejects(answers[1]!, told("INTERNAL", /gave no answer/));
  await assert.rejects(answers[2]!, told("INTERNAL", /contents of 0/));
  assert.deepEqual((await answers[3]!).x!.numbers(), [4]);
  await stream.close();
  await assert.rejects(stream.infer(x(5)), told("CANCELLED", /stream was closed/));
});

test("answers to what was not asked end the stream", async () => {
  for (const id of ["2", "-", "9e99"]) {
    liar.inferStream = (request, say) => say({ inferResponse: { ...honest(request), id } });
    const stream = await begun();
    await assert.rejects(stream.infer(x(1)), told("INTERNAL", /answers request .*, not 1/));
    await assert.rejects(stream.infer(x(1)), told("INTERNAL", /answers request/));
    await stream.close();
  }
});

test("when a stream ends, so does all that is under way", async () => {
  liar.inferStream = (_, __, call) => call.emit("error", { code: status.UNAVAILABLE, details: "lost" });
  const lost = await begun();
  const both = [lost.infer(x(1)), lost.infer(x(2))];
  await assert.rejects(both[0]!, told("UNAVAILABLE", /lost/));
  await assert.rejects(both[1]!, told("UNAVAILABLE", /lost/));
  await lost.close();
  liar.inferStream = (_, __, call) => call.end();
  await assert.rejects((await begun()).infer(x(1)), told("UNAVAILABLE", /has ended the stream/));
});

test("a request of more than the server takes is an error", async () => {
  const stream = await begun();
  const large = stream.infer({ x: new Uint8Array(5 << 20) }); // servers that are not told otherwise take 4 MiB
  await assert.rejects(large, told("RESOURCE_EXHAUSTED", /larger than max/));
  await stream.close();
});

test("what is given up, late, or its client's that is closed ends", async () => {
  const controller = new AbortController();
  const asked = new Promise<void>((resolve) => (liar.inferStream = () => resolve()));
  const given = (await begun({ signal: controller.signal })).infer(x(1));
  await asked;
  controller.abort();
  await assert.rejects(given, told("CANCELLED", /given up/));
  await assert.rejects(begun({ signal: controller.signal }), told("CANCELLED", /given up/));
  await assert.rejects((await begun({ timeout: 50 })).infer(x(1)), told("DEADLINE_EXCEEDED", /./));

  let [answer, taken] = [() => {}, () => {}];
  const isTaken = new Promise<void>((resolve) => (taken = resolve));
  liar.inferStream = (request, say) => {
    answer = () => say({ inferResponse: honest(request) });
    taken();
  };
  const last = (await begun()).infer(x(1));
  await isTaken;
  const closing = client.close();
  answer(); // there are 5 s for what is under way
  assert.deepEqual((await last).x!.numbers(), [1]);
  await closing;
  await assert.rejects(begun(), told("CANCELLED", /client was closed/));
});
