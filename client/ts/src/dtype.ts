import { DType as WireDType } from "./gen/kiln/v1/dtype_pb.js";
import { badArgument } from "./errors.js";

// The scalar types that arrays may have. Their names are those of the protocol, in small letters.

/** What holds the elements of arrays; of the floats that JavaScript has no type for, their bits. */
export type TypedArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Float32Array
  | Float64Array;

export interface TypedArrayConstructor {
  readonly BYTES_PER_ELEMENT: number;
  readonly name: string;
  new (buffer: ArrayBufferLike, offset: number, length: number): TypedArray;
}

interface Row {
  readonly wire: WireDType;
  readonly bytes: number;
  readonly kind: "bool" | "signed" | "unsigned" | "float";
  readonly elements: TypedArrayConstructor;
  /** As served models call it, if one may have it. */
  readonly datatype?: string;
}

const rows = {
  bool: { wire: WireDType.BOOL, bytes: 1, kind: "bool", elements: Uint8Array, datatype: "BOOL" },
  int8: { wire: WireDType.INT8, bytes: 1, kind: "signed", elements: Int8Array, datatype: "INT8" },
  int16: { wire: WireDType.INT16, bytes: 2, kind: "signed", elements: Int16Array, datatype: "INT16" },
  int32: { wire: WireDType.INT32, bytes: 4, kind: "signed", elements: Int32Array, datatype: "INT32" },
  int64: { wire: WireDType.INT64, bytes: 8, kind: "signed", elements: BigInt64Array, datatype: "INT64" },
  uint8: { wire: WireDType.UINT8, bytes: 1, kind: "unsigned", elements: Uint8Array, datatype: "UINT8" },
  uint16: { wire: WireDType.UINT16, bytes: 2, kind: "unsigned", elements: Uint16Array, datatype: "UINT16" },
  uint32: { wire: WireDType.UINT32, bytes: 4, kind: "unsigned", elements: Uint32Array, datatype: "UINT32" },
  uint64: { wire: WireDType.UINT64, bytes: 8, kind: "unsigned", elements: BigUint64Array, datatype: "UINT64" },
  float16: { wire: WireDType.FLOAT16, bytes: 2, kind: "float", elements: Uint16Array, datatype: "FP16" },
  float32: { wire: WireDType.FLOAT32, bytes: 4, kind: "float", elements: Float32Array, datatype: "FP32" },
  float64: { wire: WireDType.FLOAT64, bytes: 8, kind: "float", elements: Float64Array, datatype: "FP64" },
  bfloat16: { wire: WireDType.BFLOAT16, bytes: 2, kind: "float", elements: Uint16Array, datatype: "BF16" },
  float8_e4m3: { wire: WireDType.FLOAT8_E4M3, bytes: 1, kind: "float", elements: Uint8Array },
  float8_e5m2: { wire: WireDType.FLOAT8_E5M2, bytes: 1, kind: "float", elements: Uint8Array },
  float8_e4m3_fnuz: { wire: WireDType.FLOAT8_E4M3_FNUZ, bytes: 1, kind: "float", elements: Uint8Array },
  float8_e5m2_fnuz: { wire: WireDType.FLOAT8_E5M2_FNUZ, bytes: 1, kind: "float", elements: Uint8Array },
} as const;

export type DType = keyof typeof rows;

export const dtypes: Readonly<Record<DType, Row>> = rows;

const names = new Map(Object.entries(dtypes).map(([name, row]) => [row.wire, name as DType]));

/** The scalar type of the protocol's number; undefined for what is never stored. */
export function fromWire(wire: WireDType): DType | undefined {
  return names.get(wire);
}

const served = new Map(Object.entries(dtypes).map(([name, row]) => [row.datatype, name as DType]));

/** The scalar type of a served model's tensors, by the name that the open inference protocol has for it. */
export function fromDatatype(datatype: string): DType | undefined {
  return served.get(datatype);
}

/** As fromWire; an error for what is never stored. */
export function stored(wire: WireDType): DType {
  const name = names.get(wire);
  if (name === undefined) {
    throw badArgument(`arrays are never of dtype ${WireDType[wire] ?? wire}`);
  }
  return name;
}

/** An error for what is no name of a dtype. */
export function checkDType(dtype: DType) {
  if (!Object.hasOwn(dtypes, dtype)) {
    throw badArgument(`"${dtype}" names no dtype`);
  }
}

export const isFloat = (dtype: DType) => dtypes[dtype].kind === "float";

/** Floats of less than 32 bits, which are computed in 32. */
export const isNarrow = (dtype: DType) => isFloat(dtype) && dtypes[dtype].bytes < 4;
