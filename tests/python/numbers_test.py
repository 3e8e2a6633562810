"""A number is used as it was given: what is no integer, or does not fit, is refused and not cut."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
import kiln.aio

# What int() would take for an integer.
NO_INTEGERS = (2.9, "3", np.float32(2), np.array([1, 2]), None)


def scaled():
    """rows.sum() of (n, 2), with n given by each call."""
    graph = kiln.Graph()
    n = graph.variable("n", 1, 8)
    graph.output(graph.param("rows", (n, 2), "float32").sum())
    return graph


class Numbers(support.ServerTest):
    def refuses(self, kind, code, *attempts):
        for attempt in attempts:
            with self.assertRaises(kind) as caught:
                attempt()
            self.assertEqual(caught.exception.code, code)

    def test_variables(self):
        program = self.client.compile(scaled())
        rows = np.ones((2, 2), np.float32)
        for two in (2, np.int8(2), np.array(2)):
            self.assertEqual(program(rows, n=two), 4)
        for value in NO_INTEGERS:
            self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: program(rows, n=value))
        with self.assertRaisesRegex(kiln.DTypeError, r"argument \d \(n\) is an integer, not 2.9"):
            program(rows, n=2.9)
        for value in (2**63, -(2**63) - 1, 10**5000, 9):
            self.refuses(kiln.InvalidArgument, "BAD_ARGUMENT", lambda: program(rows, n=value))

    def test_a_variable_is_looked_at_before_anything_is_sent(self):
        program = self.client.compile(scaled())
        calls = {name: row.calls for name, row in self.client.traffic.items()}
        self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: program(np.ones((2 << 20, 2), np.float32), n=2.5))
        self.assertEqual({name: row.calls for name, row in self.client.traffic.items()}, calls)

    def test_integers_of_a_recording(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 4)
        rows, total = graph.param("rows", (4,), "float32"), graph.param("total", (1,), "float32")
        graph.update(total, rows[:n].sum(axis=0, keepdims=True))
        step = self.client.compile(graph)

        def record(n):
            return self.client.record([(step, {"rows": kiln.Memory(0), "total": kiln.Memory(1), "n": n})])

        rows, total = self.client.buffer(np.arange(4, dtype=np.float32)), self.client.empty((1,), "float32")
        record(np.int8(3))(rows, total)
        self.assertEqual(total.numpy(), 3)
        recording = record(kiln.Integer(0))
        recording(rows, total, np.int16(4))
        self.assertEqual(total.numpy(), 6)
        for value in NO_INTEGERS:
            self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: record(value),
                         lambda: recording.run([rows, total], [value]))  # fmt: skip
        self.refuses(kiln.InvalidArgument, "BAD_ARGUMENT", lambda: record(2**63),
                     lambda: recording(rows, total, 2**63))  # fmt: skip

    def test_shapes_sizes_and_offsets(self):
        self.assertEqual(self.client.empty((np.int64(2), np.array(3))).shape, (2, 3))
        self.assertEqual(self.client.empty(np.array([2, 3])).shape, (2, 3))
        buffer = self.client.buffer(np.arange(6.0))
        for value in NO_INTEGERS:
            self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: self.client.empty((value,)),
                         lambda: self.client.allocate(value), lambda: kiln.Graph().param("x", (value,)),
                         lambda: buffer.view((value,)), lambda: buffer.view((1,), start=value),
                         lambda: buffer.read(value), lambda: buffer.fill(0, value, 1), lambda: buffer[value],
                         lambda: buffer.read_into(bytearray(1), value), lambda: buffer.write_bytes(b"1", value),
                         lambda: kiln.Graph().param("x", (2, 3))[value if np.ndim(value) == 0 and value else 0.5],
                         lambda: kiln.Graph().param("x", (2, 3)).sum(axis=value if value is not None else 0.5))  # fmt: skip
        for key in (1.7, slice(0.5, 2), slice("1")):
            self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: buffer[key])
        self.refuses(kiln.ShapeError, "SIZE_OVERFLOW", lambda: self.client.allocate(-1),
                     lambda: self.client.allocate(1 << 64))  # fmt: skip
        self.refuses(kiln.OutOfRange, "OUT_OF_BOUNDS", lambda: buffer.read_into(bytearray(1), -1),
                     lambda: buffer.write_bytes(b"1", -1), lambda: buffer.write_bytes(b"1", 1 << 64))  # fmt: skip
        self.assertEqual(buffer.numpy().tolist(), list(range(6)))

    def test_fill_takes_what_the_dtype_holds(self):
        for dtype, given, expected in (
            ("int32", -3, -3), ("int32", 2.0, 2), ("int8", np.uint64(127), 127), ("uint64", 2**64 - 1, 2**64 - 1),
            ("int64", 2**53 + 1, 2**53 + 1), ("bool", 1, True), ("float32", 0.1, np.float32(0.1)), ("float32", True, 1),
            ("float32", 2**70, 2.0**70), ("float16", np.inf, np.inf), ("bfloat16", 1, 1), ("float8_e4m3", 448, 448),
            ("float64", np.array(2.5), 2.5),
        ):  # fmt: skip
            with self.subTest(dtype=dtype, given=given):
                self.assertEqual(self.client.empty((2,), dtype).fill(given).numpy().tolist(), [expected] * 2)

    def test_fill_refuses_what_it_does_not_hold(self):
        for dtype, given in (
            ("int32", 2.7), ("int32", np.nan), ("int64", np.inf), ("uint8", 300), ("uint8", -1), ("int64", 2**63),
            ("int8", np.uint64(2**64 - 1)), ("uint64", 2**64), ("int32", 10**5000), ("bool", 2), ("float16", 1e6),
            ("float32", 1e40), ("float64", 10**400), ("float8_e4m3", 1000), ("float32", 1j), ("int32", "3"),
            ("uint8", b"3"), ("float32", None),
        ):  # fmt: skip
            buffer = self.client.empty((2,), dtype)
            with self.subTest(dtype=dtype, given=str(type(given))):
                self.refuses(kiln.DTypeError, "DTYPE_MISMATCH", lambda: buffer.fill(given))
                self.assertEqual(buffer.numpy().tolist(), [0, 0])
        buffer = self.client.empty((4,), "float32")
        self.refuses(kiln.ShapeError, "SHAPE_MISMATCH", lambda: buffer.fill([1, 2]), lambda: buffer.fill(np.ones(1)))
        self.assertEqual(buffer.numpy().tolist(), [0] * 4)

    def test_constants_of_a_graph(self):
        graph = kiln.Graph()
        for value in (2.5, np.float32(2.5), np.float64("nan"), np.float16("inf")):
            self.refuses(kiln.InvalidArgument, "BAD_ARGUMENT", lambda: graph.full((2,), value, "int32"))
        graph.output(graph.full((2,), np.float32(3), "int32"))
        self.assertEqual(self.client.compile(graph)().tolist(), [3, 3])

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                buffer = await client.buffer(np.arange(4, dtype=np.int32))
                program = await client.compile(scaled())
                self.assertEqual(await program(np.ones((2, 2), np.float32), n=2), 4)
                for wrong in (client.empty((2.5,)), client.allocate(2.5), buffer.read(1.5), buffer.fill(2.7),
                              buffer.view((1.5,)), buffer.read_into(bytearray(1), 0.5), buffer.write_bytes(b"1", 0.5),
                              program(np.ones((2, 2), np.float32), n=2.9)):  # fmt: skip
                    with self.assertRaises(kiln.DTypeError) as caught:
                        await wrong
                    self.assertEqual(caught.exception.code, "DTYPE_MISMATCH")
                self.assertEqual((await buffer.numpy()).tolist(), [0, 1, 2, 3])

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
