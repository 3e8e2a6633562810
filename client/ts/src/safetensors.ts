import { readFile } from "node:fs/promises";

import { NdArray } from "./array.js";
import type { DType } from "./dtype.js";
import { KilnError, badArgument } from "./errors.js";

// Such a file is the length of its header (8 bytes, little-endian), the header (JSON), and the arrays' bytes.

const dtypes = new Map<unknown, DType>([
  ["BOOL", "bool"],
  ["U8", "uint8"],
  ["I8", "int8"],
  ["U16", "uint16"],
  ["I16", "int16"],
  ["U32", "uint32"],
  ["I32", "int32"],
  ["U64", "uint64"],
  ["I64", "int64"],
  ["F16", "float16"],
  ["BF16", "bfloat16"],
  ["F32", "float32"],
  ["F64", "float64"],
  ["F8_E4M3", "float8_e4m3"],
  ["F8_E5M2", "float8_e5m2"],
]);

/**
 * The constants of a model, from the .safetensors that `kiln import model.onnx -o model.kgraph` writes beside the
 * graph: by the slot with which each one's name begins ("3_weight"). They share one memory. A program takes them in a
 * Map; what runs more than once uploads them first.
 */
export async function readConstants(path: string): Promise<Map<number, NdArray>> {
  const file = await readFile(path);
  try {
    return constantsOf(file);
  } catch (error) {
    throw error instanceof KilnError ? badArgument(`${path}: ${error.message}`) : error;
  }
}

/** @internal */
export function constantsOf(file: Uint8Array): Map<number, NdArray> {
  const view = new DataView(file.buffer, file.byteOffset, file.length);
  const size = file.length < 8 ? -1 : Number(view.getBigUint64(0, true));
  if (size < 0 || size > file.length - 8) {
    throw badArgument("it has no header of a .safetensors");
  }
  const header = parsed(new TextDecoder().decode(file.subarray(8, 8 + size)));
  const data = file.subarray(8 + size);
  const constants = new Map<number, NdArray>();
  for (const [name, row] of Object.entries(header)) {
    if (name === "__metadata__") {
      continue;
    }
    const slot = Number(/^(\d+)(_|$)/.exec(name)?.[1] ?? NaN);
    if (!(slot < 2 ** 32)) {
      throw badArgument(`"${name}" begins with no slot, as "3_weight" does`);
    }
    if (constants.has(slot)) {
      throw badArgument(`slot ${slot} is there twice`);
    }
    constants.set(slot, constant(name, row, data));
  }
  return constants;
}

function constant(name: string, row: unknown, data: Uint8Array): NdArray {
  const { dtype, shape, data_offsets: offsets } = isObject(row) ? row : {};
  const kind = dtypes.get(dtype);
  if (kind === undefined) {
    throw badArgument(`"${name}" is of ${String(dtype)}, which no array here is`);
  }
  if (!isSizes(shape) || !isSizes(offsets) || offsets.length !== 2) {
    throw badArgument(`"${name}" is not described as it must be`);
  }
  const [begin, end] = offsets as [number, number];
  if (begin > end || end > data.length) {
    throw badArgument(`"${name}" is bytes ${begin} to ${end} of ${data.length}`);
  }
  return new NdArray(kind, shape, data.subarray(begin, end));
}

function parsed(text: string): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(text);
  } catch (error) {
    throw badArgument(`its header is not as it must be: ${(error as Error).message}`);
  }
  if (!isObject(header)) {
    throw badArgument("its header is no object");
  }
  return header;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isSizes = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
