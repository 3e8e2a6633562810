import { blake3 } from "@noble/hashes/blake3.js";

import type { Graph as GraphMessage, UOp } from "./gen/kiln/v1/graph_pb.js";
import { Dialect, Op } from "./gen/kiln/v1/graph_pb.js";
import { DType } from "./gen/kiln/v1/dtype_pb.js";
import { isOp, writeArgument } from "./arguments.js";
import { CanonicalWriter } from "./canonical.js";
import { KilnError, badArgument } from "./errors.js";

/**
 * A graph's hash, the same in every language: proto/README.md fixes each byte. A digest of a node is BLAKE3 over its
 * op's name, its argument in canonical form and its sources' digests, so one pass from the first node to the last gives
 * all.
 *
 * What has no hash throws a KilnError with the code and the node that the server would give.
 */
export function hash(graph: GraphMessage): Uint8Array {
  const last = graph.nodes.length - 1;
  if (last < 0) {
    throw new KilnError("INVALID_ARGUMENT", "a graph without nodes has no hash", { code: "GRAPH_EMPTY" });
  }
  if (Dialect[graph.dialect] === undefined) {
    throw badArgument(`dialect ${graph.dialect} is unknown`);
  }
  const digests: Uint8Array[] = [];
  const to = new CanonicalWriter();
  graph.nodes.forEach((node, number) => {
    try {
      writeNode(to.clear(), node, number, digests, graph);
    } catch (error) {
      throw error instanceof KilnError ? atNode(error, number, node) : error;
    }
    digests.push(blake3(to.written));
  });
  to.clear().raw(new TextEncoder().encode("kiln.graph")).u8(1).raw(digests[last]!);
  return blake3(to.written);
}

function atNode(failed: KilnError, node: number, uop: UOp): KilnError {
  return new KilnError(failed.status, failed.message, {
    code: failed.code,
    node,
    op: Op[uop.op] ?? `${uop.op}`,
    tag: uop.tag,
  });
}

function writeNode(to: CanonicalWriter, node: UOp, number: number, digests: Uint8Array[], graph: GraphMessage) {
  if (!isOp(node.op)) {
    throw new KilnError("UNIMPLEMENTED", `op ${node.op} is unknown`, { code: "UNKNOWN_OP" });
  }
  to.string(opName(node, graph.dialect === Dialect.LEGACY_2025));
  writeArgument(to, node);
  to.u32(node.src.length);
  for (const source of node.src) {
    if (source >= graph.nodes.length) {
      throw new KilnError("INVALID_ARGUMENT", `source ${source} is no node of the graph`, {
        code: "SOURCE_OUT_OF_RANGE",
      });
    }
    if (source >= number) {
      throw new KilnError("INVALID_ARGUMENT", `source ${source} is not earlier`, { code: "GRAPH_CYCLE" });
    }
    to.raw(digests[source]!);
  }
}

/** An op's name, by what its dialect, and a dtype that is no mere check, make of it. */
function opName(node: UOp, legacy: boolean): string {
  let name: string = Op[node.op];
  if (node.op === Op.IDIV || node.op === Op.MOD) {
    name = (legacy ? "C" : "FLOOR") + (node.op === Op.IDIV ? "DIV" : "MOD");
  } else if (legacy && [Op.LOAD, Op.STORE, Op.RANGE].includes(node.op)) {
    name += ":LEGACY_2025";
  }
  return saysDType(node) ? `${name}:${node.dtype}` : name;
}

const alwaysSay = new Set([Op.BUFFER_VIEW, Op.CUSTOM, Op.CUSTOMI, Op.EMPTY, Op.INS, Op.VCONST]);
const sayForTheirBuffer = new Set([Op.DEFINE_GLOBAL, Op.DEFINE_LOCAL, Op.DEFINE_REG, Op.DEFINE_ACC]);
const sayIfUnusual = new Set([Op.RANGE, Op.LOOP, Op.SPECIAL]);

/** Whether the node's dtype is no check, but says what it is. */
function saysDType({ op, dtype, arg }: UOp): boolean {
  if (dtype === DType.DTYPE_UNSPECIFIED) {
    return false;
  }
  if (sayForTheirBuffer.has(op)) {
    return arg.case !== "buffer" || arg.value.dtype === DType.DTYPE_UNSPECIFIED;
  }
  return alwaysSay.has(op) || (sayIfUnusual.has(op) && dtype !== DType.INT64 && dtype !== DType.WEAKINT);
}
