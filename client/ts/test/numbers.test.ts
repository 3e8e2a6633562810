import assert from "node:assert/strict";
import { test } from "node:test";

import { array, round, scalar } from "../src/index.js";
import type { DType } from "../src/index.js";
import { narrow, patternOfInteger } from "../src/floats.js";
import { DType as WireDType } from "../src/gen/kiln/v1/dtype_pb.js";

test("each number of the narrow floats has its bits, and lies between its neighbours", () => {
  for (const dtype of ["float16", "bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3_fnuz"] as const) {
    const format = narrow(dtype)!;
    for (let bits = 0; bits <= format.greatest; bits++) {
      const value = format.number(bits);
      assert.equal(format.bits(value), bits, `${dtype} ${bits}`);
      if (bits < format.greatest) {
        const between = (value + format.number(bits + 1)) / 2;
        assert.equal(format.bits(between), bits + (bits % 2), `${dtype}: halfway above ${bits} is the even one`);
        assert.equal(format.bits(between * (1 + 2 ** -40)), bits + 1);
      }
    }
  }
});

test("what is beyond a float, and what is no number", () => {
  const rows: [Exclude<DType, "float64">, number, number][] = [
    ["float16", 65519, 0x7bff],
    ["float16", 65520, 0x7c00],
    ["float16", -0, 0x8000],
    ["float16", NaN, 0x7e00],
    ["bfloat16", 1e39, 0x7f80],
    ["float8_e4m3", 1e9, 0x7e],
    ["float8_e4m3", Infinity, 0x7f],
    ["float8_e5m2", 1e9, 0x7b],
    ["float8_e5m2", -Infinity, 0xfc],
    ["float8_e4m3_fnuz", -0, 0],
    ["float8_e5m2_fnuz", NaN, 0x80],
    ["float32", 1 + 2 ** -24, 0x3f800000],
    ["float32", 1e-46, 0],
  ];
  for (const [dtype, value, bits] of rows) {
    assert.equal(round(dtype, value), bits, `${dtype} of ${value}`);
  }
  assert.ok(Number.isNaN(narrow("float8_e4m3")!.number(0x7f)));
});

test("an integer is rounded once", () => {
  // To a double first it would be 2^60 + 2^36, halfway, and then even.
  const value = 2n ** 60n + 2n ** 36n + 1n;
  assert.equal(patternOfInteger(WireDType.FLOAT32, value), 0x5d800001n);
  assert.equal(patternOfInteger(WireDType.FLOAT32, -value), 0xdd800001n);
  assert.deepEqual([...array([value, -value], [2], "float32").values], [2 ** 60 + 2 ** 37, -(2 ** 60 + 2 ** 37)]);
  assert.deepEqual(array([(1n << 60n) + (1n << 52n) + 1n], [1], "bfloat16").numbers(), [2 ** 60 + 2 ** 53]);
  assert.deepEqual([...array([-3n, 2n ** 70n], [2], "float64").values], [-3, 2 ** 70]);
});

test("typed arrays share their memory; numbers are converted", () => {
  const values = Float32Array.of(1, 2, 3, 4, 5, 6);
  const made = array(values, [2, 3]);
  values[0] = 9;
  assert.deepEqual([made.dtype, made.shape, made.numbers()], ["float32", [2, 3], [9, 2, 3, 4, 5, 6]]);
  const kinds = [BigInt64Array.of(-1n), Uint8Array.of(7), Int16Array.of(-2)].map((one) => array(one));
  assert.deepEqual(
    kinds.map((one) => [one.dtype, ...one.numbers()]),
    [
      ["int64", -1],
      ["uint8", 7],
      ["int16", -2],
    ],
  );
  assert.deepEqual([...array([1.5, -2], [2], "bfloat16").values], [0x3fc0, 0xc000]);
  assert.deepEqual(array(Uint16Array.of(0x3c00), [1], "float16").numbers(), [1]);
  assert.deepEqual(array([true, false], [2], "bool").numbers(), [1, 0]);
  assert.deepEqual(scalar(2n ** 63n, "uint64").values, BigUint64Array.of(2n ** 63n));
  // Not aligned: a copy.
  assert.deepEqual([...array(new Uint8Array(9).subarray(1), [8]).reshape([2, 4]).values], Array(8).fill(0));
});

test("what is no array is refused", () => {
  const refused: [() => unknown, RegExp][] = [
    [() => array(Float32Array.of(1, 2), [3]), /shape \[3\] has 12 bytes, not 8/],
    [() => array([1], [-1]), /no array has the shape \[-1\]/],
    [() => array(Float32Array.of(1), [1], "float16"), /the elements of float16 are those of a Uint16Array/],
    [() => array([300], [1], "uint8"), /uint8 does not hold 300/],
    [() => array([0.5], [1], "int32"), /int32 does not hold 0.5/],
    [() => array([1], [1], "float" as DType), /"float" names no dtype/],
  ];
  for (const [make, message] of refused) {
    assert.throws(make, message);
  }
});
