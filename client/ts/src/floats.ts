import { DType as WireDType } from "./gen/kiln/v1/dtype_pb.js";
import type { DType } from "./dtype.js";
import { dtypes } from "./dtype.js";

// Numbers as the bits of each float, rounded once to nearest, ties to even; and back.

// What is beyond a float's greatest value, and what its NaN is: "saturating" is ieee whose finite values stay so, and
// fnuz has no infinity and no negative zero.
type Style = "ieee" | "saturating" | "no infinity" | "fnuz";

class Format {
  readonly sign: number;
  readonly infinity: number;
  readonly #unit: number;

  constructor(
    exponent: number,
    readonly mantissa: number,
    readonly bias: number,
    readonly style: Style,
  ) {
    this.#unit = 2 ** mantissa;
    this.sign = 2 ** (exponent + mantissa);
    this.infinity = this.sign - this.#unit;
  }

  get hasInfinity() {
    return this.style === "ieee" || this.style === "saturating";
  }

  get nan() {
    return this.style === "fnuz" ? this.sign : this.hasInfinity ? this.infinity + this.#unit / 2 : this.sign - 1;
  }

  get greatest() {
    return this.style === "fnuz" ? this.sign - 1 : this.hasInfinity ? this.infinity - 1 : this.sign - 2;
  }

  bits(value: number): number {
    if (Number.isNaN(value) || (!Number.isFinite(value) && !this.hasInfinity)) {
      return this.nan;
    }
    const pattern = Number.isFinite(value) ? this.#magnitude(Math.abs(value)) : this.infinity;
    const negative = value < 0 || Object.is(value, -0);
    return negative && !(this.style === "fnuz" && pattern === 0) ? this.sign + pattern : pattern;
  }

  #magnitude(value: number): number {
    // The exponent of the leading bit, or the least that is not subnormal.
    const leading = Math.max(exponentOf(value), 1 - this.bias);
    const scaled = value / 2 ** (leading - this.mantissa);
    let units = Math.floor(scaled);
    const rest = scaled - units;
    if (rest > 0.5 || (rest === 0.5 && units % 2 === 1)) {
      units++;
    }
    // A carry into the exponent is as it should be.
    const pattern = (leading + this.bias - 1) * this.#unit + units;
    return pattern <= this.greatest ? pattern : this.style === "ieee" ? this.infinity : this.greatest;
  }

  number(bits: number): number {
    const negative = bits >= this.sign;
    const pattern = negative ? bits - this.sign : bits;
    if (this.style === "fnuz" && bits === this.sign) {
      return NaN;
    }
    if (pattern > this.greatest) {
      return this.hasInfinity && pattern === this.infinity ? (negative ? -Infinity : Infinity) : NaN;
    }
    const exponent = Math.floor(pattern / this.#unit);
    const units = (pattern % this.#unit) + (exponent > 0 ? this.#unit : 0);
    const value = units * 2 ** (Math.max(exponent, 1) - this.bias - this.mantissa);
    return negative ? -value : value;
  }
}

const formats = new Map<WireDType, Format>([
  [WireDType.FLOAT16, new Format(5, 10, 15, "ieee")],
  [WireDType.BFLOAT16, new Format(8, 7, 127, "ieee")],
  [WireDType.FLOAT32, new Format(8, 23, 127, "ieee")],
  [WireDType.FLOAT8_E4M3, new Format(4, 3, 7, "no infinity")],
  [WireDType.FLOAT8_E5M2, new Format(5, 2, 15, "saturating")],
  [WireDType.FLOAT8_E4M3_FNUZ, new Format(4, 3, 8, "fnuz")],
  [WireDType.FLOAT8_E5M2_FNUZ, new Format(5, 2, 16, "fnuz")],
]);

const word = new DataView(new ArrayBuffer(8));

function exponentOf(value: number): number {
  word.setFloat64(0, value);
  return ((word.getUint16(0) >> 4) & 0x7ff) - 1023;
}

/** How many bits a float has; 0 for what is none. */
export function floatWidth(wire: WireDType): number {
  if (wire === WireDType.FLOAT64 || wire === WireDType.WEAKFLOAT) {
    return 64;
  }
  const format = formats.get(wire);
  return format === undefined ? 0 : Math.log2(format.sign) + 1;
}

/** A number's bits in a float of the protocol's. */
export function patternOf(wire: WireDType, value: number): bigint {
  const format = formats.get(wire);
  if (format !== undefined) {
    return BigInt(format.bits(value));
  }
  word.setFloat64(0, value);
  return Number.isNaN(value) ? 0x7ff8000000000000n : word.getBigUint64(0);
}

/** The same of an integer of any size. */
export function patternOfInteger(wire: WireDType, value: bigint): bigint {
  return patternOf(wire, formats.has(wire) ? toOdd(value) : Number(value));
}

/** An integer as a double that rounds as it does, once, to any float of 32 bits or less. */
export function toOdd(value: bigint): number {
  // What a double does not hold is cut off, and leaves a mark in the last bit.
  const magnitude = value < 0n ? -value : value;
  const excess = BigInt(Math.max(0, magnitude.toString(2).length - 53));
  const kept = magnitude >> excess;
  const odd = kept << excess === magnitude ? kept : kept | 1n;
  return (value < 0n ? -1 : 1) * Number(odd) * 2 ** Number(excess);
}

/** A number's bits in one of the floats, rounded to nearest, ties to even; of 64 bits, `patternOf` alone gives them. */
export function round(dtype: Exclude<DType, "float64">, value: number): number {
  return Number(patternOf(dtypes[dtype].wire, value));
}

/** Both ways between numbers and bits, of a float that JavaScript has no type for; undefined for every other dtype. */
export function narrow(dtype: DType): Format | undefined {
  return dtype === "float32" ? undefined : formats.get(dtypes[dtype].wire);
}
