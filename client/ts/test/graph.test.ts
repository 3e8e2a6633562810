import assert from "node:assert/strict";
import { test } from "node:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Graph, KilnError, hash, readGraph, writeGraph } from "../src/index.js";
import { ConstArgSchema, GraphSchema, Op } from "../src/gen/kiln/v1/graph_pb.js";
import { DType as WireDType } from "../src/gen/kiln/v1/dtype_pb.js";
import { create } from "@bufbuild/protobuf";

test("equal nodes are one, and only what outputs need is built", () => {
  const g = new Graph();
  const x = g.param("x", "float32", [4]);
  x.exp();
  assert.equal(x.mul(2).node, x.mul(2).node);
  g.output(x.mul(2), x.mul(2));
  const ops = g.build().nodes.map((node) => Op[node.op]);
  const wanted = ["CONST", "STACK", "PARAM", "CONST", "STACK", "CONST", "RESHAPE", "EXPAND", "MUL", "TUPLE"];
  assert.deepEqual(ops, wanted);
  assert.deepEqual(g.build().nodes.at(-1)!.src, [8, 8]);
});

test("the hash of proto/README.md's example", () => {
  const constant = create(ConstArgSchema, { dtype: WireDType.INT32, value: { case: "i", value: 1n } });
  const nodes = [
    { op: Op.CONST, arg: { case: "constant" as const, value: constant } },
    { op: Op.SINK, src: [0] },
  ];
  const made = Buffer.from(hash(create(GraphSchema, { nodes }))).toString("hex");
  assert.equal(made, "53bb5b3a8b979ac6d96a72d2cf60208e5d9224c76b0cf1f40881be4fc19f5969");
});

test("mistakes are told where they are made", () => {
  const g = new Graph();
  const x = g.param("x", "float32", [2, 3]);
  const y = g.param("y", "int32", [2, 3]);
  const body = new Graph();
  body.output(body.param("a", "float32", [2]));
  const mistakes: [() => unknown, string, RegExp][] = [
    [() => x.add(y), "DTYPE_MISMATCH", /float32 and int32: cast one/],
    [() => x.add(g.full("float32", 0, [4])), "SHAPE_MISMATCH", /\[2,3\] and \[4\] do not broadcast/],
    [() => y.exp(), "DTYPE_MISMATCH", /of floats, of int32/],
    [() => y.add(0.5), "BAD_ARGUMENT", /int32 does not hold 0.5/],
    [() => x.reshape([7]), "SHAPE_MISMATCH", /\[2,3\] does not become \[7\]/],
    [() => x.permute([0, 0]), "BAD_ARGUMENT", /no order of 2 axes/],
    [() => x.sum([2]), "SHAPE_MISMATCH", /no axis 2 in a shape of 2/],
    [() => x.matmul(x), "SHAPE_MISMATCH", /matmul/],
    [() => x.shrink([[0, 4], [0, 1]]), "SHAPE_MISMATCH", /inside of it/], // prettier-ignore
    [() => x.pad([[1, 1]]), "SHAPE_MISMATCH", /one pair/],
    [() => x.where(1, 2), "BAD_ARGUMENT", /two numbers/],
    [() => x.conv2d(x), "SHAPE_MISMATCH", /images are/],
    [() => g.param("x", "float32", [1]), "BAD_ARGUMENT", /named "x" already/],
    [() => g.param("z", "float32", [1], 0), "SHAPE_MISMATCH", /slot 0 is float32 \[2,3\] already/],
    [() => g.param("z", "float32", [1], -1), "BAD_ARGUMENT", /-1 is no slot/],
    [() => g.update(x.add(1), x), "BAD_ARGUMENT", /only a parameter/],
    [() => g.update(x, y), "DTYPE_MISMATCH", /the value int32/],
    [() => g.output(body.param("b", "float32")), "BAD_ARGUMENT", /another graph/],
    [() => g.call(body), "MISSING_ARGUMENT", /slot 0/],
    [() => g.build(), "BAD_ROOT", /neither an output nor an update/],
    [() => hash(create(GraphSchema)), "GRAPH_EMPTY", /without nodes/],
  ];
  for (const [make, code, message] of mistakes) {
    assert.throws(make, (error: KilnError) => {
      assert.equal(error.code, code);
      assert.match(error.message, message);
      return error instanceof KilnError && error.status === "INVALID_ARGUMENT";
    });
  }
});

test("a graph's file comes back as it went", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "kiln-"));
  t.after(() => rm(folder, { recursive: true }));
  const g = new Graph();
  g.output(g.param("x", "bfloat16", [2]).softmax(0));
  for (const name of ["g.pb", "g.kgraph", "g.json"]) {
    await writeGraph(join(folder, name), g.build());
    assert.deepEqual(hash(await readGraph(join(folder, name))), hash(g.build()));
  }
  await assert.rejects(readGraph(join(folder, "g.txtpb")), /text is not read/);
});
