import { CollectiveService } from "./gen/kiln/v1/collective_service_pb.js";
import type { DeviceBuffer } from "./buffer.js";
import type { Reduction } from "./build/reducing.js";
import { reductions } from "./build/reducing.js";
import type { Client } from "./client.js";
import type { CallOptions } from "./options.js";
import { dtypes } from "./dtype.js";
import { badArgument } from "./errors.js";

/**
 * What several devices do with one tensor together: buffers stand in the order of their ranks, one a device.
 * proto/kiln/v1/collective_service.proto says what goes where.
 */
export interface Collective extends CallOptions {
  inputs: readonly DeviceBuffer[];
  outputs: readonly DeviceBuffer[];
  /**
   * The elements of the whole tensor, which is cut into parts as flat as can be; else those of the first output, or of
   * the first input if the outputs are its parts.
   */
  count?: number;
  /** Of those that reduce; "sum" otherwise. */
  op?: Reduction;
  root?: number;
  /** Combine in the order of the ranks. */
  deterministic?: boolean;
}

const { method } = CollectiveService;

// Of each collective, which side has the whole tensor, and whether it reduces.
const kinds = {
  broadcast: { method: method.broadcast, whole: "inputs", reduces: false },
  scatter: { method: method.scatter, whole: "inputs", reduces: false },
  gather: { method: method.gather, whole: "outputs", reduces: false },
  reduce: { method: method.reduce, whole: "outputs", reduces: true },
  allGather: { method: method.allGather, whole: "outputs", reduces: false },
  reduceScatter: { method: method.reduceScatter, whole: "inputs", reduces: true },
  allReduce: { method: method.allReduce, whole: "outputs", reduces: true },
} as const;

export type CollectiveKind = keyof typeof kinds;

export async function collective(client: Client, kind: CollectiveKind, what: Collective): Promise<void> {
  const { inputs, outputs, op = "sum", root = 0, deterministic = false } = what;
  const { method, whole, reduces } = kinds[kind];
  const [first, dtype] = [what[whole][0], inputs[0]?.dtype];
  if (first === undefined || dtype === undefined || outputs.length === 0) {
    throw badArgument(`${kind}: it wants inputs and outputs, and inputs that have a dtype`);
  }
  const request = {
    input: inputs.map((buffer) => buffer.ref()),
    output: outputs.map((buffer) => buffer.ref()),
    dtype: dtypes[dtype].wire,
    count: BigInt(what.count ?? first.bytes / dtypes[dtype].bytes),
    root,
    deterministicOrder: deterministic,
    ...(reduces && { op: reductions[op] }),
  };
  await client.call(method, request, what);
}
