import type { DType, TypedArray } from "./dtype.js";
import { checkDType, dtypes, isFloat } from "./dtype.js";
import { badArgument, wrongShape } from "./errors.js";
import { narrow, toOdd } from "./floats.js";

export type Shape = readonly number[];

/** An array in this process: row-major, little-endian, without padding. */
export class NdArray {
  constructor(
    readonly dtype: DType,
    readonly shape: Shape,
    readonly bytes: Uint8Array,
  ) {
    const wanted = byteCount(dtype, shape);
    if (wanted !== bytes.length) {
      throw wrongShape(`an array of ${dtype} and shape [${shape}] has ${wanted} bytes, not ${bytes.length}`);
    }
  }

  /**
   * The elements: Float32Array of float32, BigInt64Array of int64, … They share the array's memory where its
   * alignment allows. Floats that JavaScript has no type for come as bits in a Uint16Array or Uint8Array; bools as 0
   * and 1.
   */
  get values(): TypedArray {
    const { elements, bytes: size } = dtypes[this.dtype];
    const bytes = this.bytes.byteOffset % size === 0 ? this.bytes : new Uint8Array(this.bytes);
    return new elements(bytes.buffer, bytes.byteOffset, bytes.length / size);
  }

  /** The elements as numbers, whatever the dtype; 64-bit integers beyond 2^53 are rounded. */
  numbers(): number[] {
    const format = narrow(this.dtype);
    return Array.from<number | bigint, number>(this.values as ArrayLike<number | bigint>, (value) =>
      format === undefined ? Number(value) : format.number(Number(value)),
    );
  }

  /** The same elements in another shape. */
  reshape(shape: Shape): NdArray {
    return new NdArray(this.dtype, shape, this.bytes);
  }
}

const byElements = new Map<object, DType>([
  [Int8Array, "int8"],
  [Int16Array, "int16"],
  [Int32Array, "int32"],
  [BigInt64Array, "int64"],
  [Uint8Array, "uint8"],
  [Uint8ClampedArray, "uint8"],
  [Uint16Array, "uint16"],
  [Uint32Array, "uint32"],
  [BigUint64Array, "uint64"],
  [Float32Array, "float32"],
  [Float64Array, "float64"],
]);

/** What arrays are made of. */
export type Values = TypedArray | Uint8ClampedArray | readonly (number | bigint | boolean)[];

export const isTypedArray = (value: unknown): value is TypedArray =>
  ArrayBuffer.isView(value) && !(value instanceof DataView);

/**
 * An array of a typed array's elements, whose memory it shares, or of numbers, which are converted; without a shape it
 * has one axis. Of a typed array, `dtype` says what its elements are the bits of: `array(halves, [4], "float16")` of a
 * Uint16Array. Of numbers it says what they become: float32 unless it is given.
 */
export function array(values: Values, shape: Shape = [values.length], dtype?: DType): NdArray {
  checkDType(dtype ?? "float32");
  if (!isTypedArray(values)) {
    return converted(values as readonly (number | bigint | boolean)[], shape, dtype ?? "float32");
  }
  // A Buffer of Node's is a Uint8Array, too.
  const own = byElements.get(values.constructor) ?? (values instanceof Uint8Array ? "uint8" : undefined);
  if (own === undefined) {
    throw badArgument(`a ${values.constructor.name}: give its bits, as a Uint16Array or Uint8Array, and a dtype`);
  }
  if (dtype !== undefined && dtype !== own) {
    const wanted = dtypes[dtype].elements.name;
    if (dtypes[dtype].elements !== dtypes[own].elements) {
      throw badArgument(`the elements of ${dtype} are those of a ${wanted}, not of a ${values.constructor.name}`);
    }
  }
  return new NdArray(dtype ?? own, shape, new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
}

/** An array of no axes. */
export const scalar = (value: number | bigint | boolean, dtype?: DType) => array([value], [], dtype);

function converted(values: readonly (number | bigint | boolean)[], shape: Shape, dtype: DType): NdArray {
  const { elements, bytes, kind } = dtypes[dtype];
  const made = new elements(new ArrayBuffer(values.length * bytes), 0, values.length);
  const format = narrow(dtype);
  values.forEach((value, at) => {
    if (!isFloat(dtype)) {
      made[at] = integer(value, dtype, kind === "signed", bytes * 8);
    } else {
      const number = typeof value === "bigint" && bytes < 8 ? toOdd(value) : Number(value);
      made[at] = format === undefined ? number : format.bits(number);
    }
  });
  return new NdArray(dtype, shape, new Uint8Array(made.buffer));
}

function integer(value: number | bigint | boolean, dtype: DType, signed: boolean, width: number): number | bigint {
  const whole = typeof value === "number" && !Number.isInteger(value) ? undefined : BigInt(value);
  const most = dtype === "bool" ? 1n : (1n << BigInt(signed ? width - 1 : width)) - 1n;
  if (whole === undefined || whole > most || whole < (signed ? -most - 1n : 0n)) {
    throw badArgument(`${dtype} does not hold ${value}`);
  }
  return width === 64 ? whole : Number(whole);
}

/** The bytes of an array; an error for what is no shape. */
export function byteCount(dtype: DType, shape: Shape): number {
  checkDType(dtype);
  const total = elementCount(shape) * dtypes[dtype].bytes;
  if (!shape.every((size) => Number.isSafeInteger(size) && size >= 0) || !Number.isSafeInteger(total)) {
    throw wrongShape(`no array has the shape [${shape}]`);
  }
  return total;
}

export const elementCount = (shape: Shape) => shape.reduce((total, size) => total * size, 1);

export const sameShape = (a: Shape, b: Shape) => a.length === b.length && a.every((size, at) => size === b[at]);
