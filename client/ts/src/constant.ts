import { DType } from "./gen/kiln/v1/dtype_pb.js";
import type { ConstArg } from "./gen/kiln/v1/graph_pb.js";
import type { CanonicalWriter } from "./canonical.js";
import { dtypes, fromWire } from "./dtype.js";
import { badArgument } from "./errors.js";
import { floatWidth, patternOf, patternOfInteger } from "./floats.js";

const decimal = /^-?[0-9]+$/;

/** Writes a constant's canonical form (proto/README.md): every way to write a value gives the same bytes. */
export function writeConstant(to: CanonicalWriter, { dtype, value }: ConstArg) {
  const width = integerWidth(dtype);
  if (width === 0 && floatWidth(dtype) === 0) {
    throw badArgument(`a constant of dtype ${DType[dtype] ?? dtype}`);
  }
  to.u32(dtype);
  if (value.case === undefined || (value.case === "invalid" && !value.value)) {
    throw badArgument("a constant without a value");
  } else if (value.case === "invalid") {
    to.u8(1);
  } else if (width === 0) {
    to.u8(0).i64(BigInt.asIntN(64, floatBits(dtype, value)));
  } else {
    writeInteger(to, dtype, width, integer(dtype, width, value));
  }
}

type Value = Exclude<ConstArg["value"], { case: undefined } | { case: "invalid" }>;

function writeInteger(to: CanonicalWriter, dtype: DType, width: number, value: bigint) {
  const [least, most] = range(dtype, width);
  if (value >= least && value <= most) {
    to.u8(0).i64(BigInt.asIntN(64, value));
  } else if (dtype === DType.WEAKINT) {
    to.u8(2).string(value.toString());
  } else {
    throw badArgument(`${value} does not fit ${DType[dtype]}`);
  }
}

/** 0 for what is no integer and no bool. */
function integerWidth(dtype: DType): number {
  const name = fromWire(dtype);
  if (name === undefined) {
    return dtype === DType.WEAKINT ? 64 : 0;
  }
  return dtypes[name].kind === "float" ? 0 : 8 * dtypes[name].bytes;
}

function isSigned(dtype: DType): boolean {
  const name = fromWire(dtype);
  return dtype === DType.WEAKINT || (name !== undefined && dtypes[name].kind === "signed");
}

function range(dtype: DType, width: number): [bigint, bigint] {
  if (isSigned(dtype)) {
    const limit = 1n << BigInt(width - 1);
    return [-limit, limit - 1n];
  }
  return [0n, dtype === DType.BOOL ? 1n : (1n << BigInt(width)) - 1n];
}

/** The value of an integer or bool constant, not yet checked against its range. */
function integer(dtype: DType, width: number, value: Value): bigint {
  switch (value.case) {
    case "b":
    case "i":
    case "u":
      return BigInt(value.value);
    case "f":
      if (!Number.isInteger(value.value)) {
        throw badArgument(`${value.value} is no integer`);
      }
      return BigInt(value.value);
    case "bits":
      if (value.value >> BigInt(width)) {
        throw badArgument("bits above the dtype's width");
      }
      return isSigned(dtype) ? BigInt.asIntN(width, value.value) : value.value;
    case "decimal":
      if (value.value.length > 1000 || !decimal.test(value.value)) {
        throw badArgument(`"${value.value.slice(0, 40)}" is no decimal number`);
      }
      return value.value.startsWith("-") ? -BigInt(value.value.slice(1)) : BigInt(value.value);
  }
}

function floatBits(dtype: DType, value: Value): bigint {
  switch (value.case) {
    case "b":
    case "i":
    case "u":
      return patternOfInteger(dtype, BigInt(value.value));
    case "f":
      return patternOf(dtype, value.value);
    case "bits":
      if (value.value >> BigInt(floatWidth(dtype))) {
        throw badArgument("bits above the dtype's width");
      }
      return value.value;
    case "decimal":
      throw badArgument("a float in decimal");
  }
}
