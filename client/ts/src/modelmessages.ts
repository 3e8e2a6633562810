import type { MessageInitShape } from "@bufbuild/protobuf";

import type {
  ModelInferRequestSchema,
  ModelInferResponse,
  ModelMetadataResponse_TensorMetadata as Described,
} from "./gen/inference/grpc_service_pb.js";
import type { Shape } from "./array.js";
import { NdArray, array, isTypedArray } from "./array.js";
import type { DType, TypedArray } from "./dtype.js";
import { dtypes, fromDatatype } from "./dtype.js";
import { KilnError, badArgument } from "./errors.js";

// The open inference protocol's messages. Tensors travel as bytes beside their descriptions, in the same order; what a
// server says of them is looked at before it becomes an array.

/** One of a served model's inputs or outputs. */
export interface ModelTensor {
  readonly name: string;
  readonly dtype: DType;
  /** -1 is a size that each request decides. */
  readonly shape: Shape;
}

/** By name; a typed array is one of one axis. */
export type ModelInputs = Readonly<Record<string, NdArray | TypedArray>>;

/** By name, in the server's order. */
export type ModelOutputs = Record<string, NdArray>;

/** Which sequence a request goes on with, of a model that keeps its state from one request to the next. */
export interface Sequence {
  /** From 1 to 2^64 - 1. */
  id: number | bigint;
  /** It is the first: state begins as zeros. */
  start?: boolean | undefined;
  /** It is the last, after which the state is gone. */
  end?: boolean | undefined;
}

/** What a request may say beside its inputs. */
export interface ModelRequest {
  /** The names of those outputs that are wanted; all of them otherwise. */
  outputs?: readonly string[] | undefined;
  sequence?: Sequence | undefined;
}

// gRPC's servers count a message's bytes in 32 bits with a sign.
const mostBytes = 2 ** 31 - 1;

type Request = MessageInitShape<typeof ModelInferRequestSchema>;

/** A request to a model; "" is its greatest version that is ready. */
export function requestOf(name: string, version: string, given: ModelInputs, more: ModelRequest, id: string): Request {
  const arrays = Object.entries(given).map(([input, value]) => [input, arrayOf(input, value)] as const);
  const bytes = arrays.reduce((total, [, one]) => total + one.bytes.length, 0);
  if (bytes > mostBytes) {
    const message = `the inputs have ${bytes} bytes; no server takes more than ${mostBytes} in one request`;
    throw new KilnError("RESOURCE_EXHAUSTED", message);
  }
  return {
    modelName: name,
    modelVersion: version,
    id,
    parameters: more.sequence === undefined ? {} : parametersOf(more.sequence),
    inputs: arrays.map(([input, { dtype, shape }]) => ({
      name: input,
      datatype: datatypeOf(input, dtype),
      shape: shape.map(BigInt),
    })),
    outputs: (more.outputs ?? []).map((output) => ({ name: output })),
    rawInputContents: arrays.map(([, one]) => one.bytes),
  };
}

function arrayOf(name: string, value: unknown): NdArray {
  if (isTypedArray(value)) {
    return array(value);
  }
  if (value instanceof NdArray) {
    return value;
  }
  throw badArgument(`input "${name}" is no array: ${String(value)}`);
}

function datatypeOf(name: string, dtype: DType): string {
  const { datatype } = dtypes[dtype];
  if (datatype === undefined) {
    const message = `input "${name}" is ${dtype}, which no served model takes`;
    throw new KilnError("INVALID_ARGUMENT", message, { code: "DTYPE_MISMATCH", field: name });
  }
  return datatype;
}

function parametersOf({ id, start, end }: Sequence): NonNullable<Request["parameters"]> {
  if (typeof id === "number" && !Number.isSafeInteger(id)) {
    throw badArgument(`a sequence's id is a whole number, which ${id} is not: a bigint has 64 bits`);
  }
  const flag = { parameterChoice: { case: "boolParam", value: true } } as const;
  return {
    sequence_id: { parameterChoice: { case: "uint64Param", value: BigInt(id) } },
    ...(start && { sequence_start: flag }),
    ...(end && { sequence_end: flag }),
  };
}

const lie = (what: string) => new KilnError("INTERNAL", `the server ${what}`);

/** What the server says of a model's inputs or outputs. */
export function tensorsOf(rows: readonly Described[]): ModelTensor[] {
  return rows.map(({ name, datatype, shape }) => ({ name, dtype: dtypeOf(name, datatype), shape: shape.map(Number) }));
}

function dtypeOf(name: string, datatype: string): DType {
  const dtype = fromDatatype(datatype);
  if (dtype === undefined) {
    throw lie(`says that "${name}" is of the type "${datatype}", which this package does not know`);
  }
  return dtype;
}

/** The arrays of an answer, in which those are that were asked for. */
export function outputsOf(answer: ModelInferResponse, wanted: readonly string[] = []): ModelOutputs {
  const { outputs, rawOutputContents: contents } = answer;
  if (contents.length !== outputs.length) {
    throw lie(`gave ${outputs.length} outputs, and the contents of ${contents.length}`);
  }
  const made = new Map<string, NdArray>();
  outputs.forEach(({ name, datatype, shape }, at) => {
    if (made.has(name)) {
      throw lie(`gave output "${name}" twice`);
    }
    made.set(name, outputOf(name, dtypeOf(name, datatype), shape.map(Number), contents[at]!));
  });
  const missing = wanted.find((name) => !made.has(name));
  if (missing !== undefined) {
    throw lie(`did not give output "${missing}", which was asked for`);
  }
  return Object.fromEntries(made);
}

function outputOf(name: string, dtype: DType, shape: Shape, content: Uint8Array): NdArray {
  try {
    // A copy, which typed arrays can be views of: within the message, elements begin at any byte.
    return new NdArray(dtype, shape, content.slice());
  } catch (cause) {
    const { message, status, code } = lie(`gave output "${name}" as ${content.length} bytes of ${dtype} [${shape}]`);
    throw new KilnError(status, message, { code }, { cause });
  }
}
