"""What Python and numpy do unasked with tensors, buffers and programs is right, or a TypeError."""

import asyncio
import copy
import gc
import operator
import pathlib
import pickle
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
import kiln.aio

ARRAY = np.arange(6, dtype=np.float32).reshape(2, 3)


class Tensors(unittest.TestCase):
    def setUp(self):
        self.graph = kiln.Graph()
        self.x = self.graph.param("x", (2, 3))

    def test_what_asks_for_a_value_is_refused_and_the_graph_does_not_grow(self):
        x = self.x
        for ask in (lambda: np.asarray(x), lambda: np.array([x, x]), lambda: np.array(x, dtype=object), lambda: np.float32(x),
                    lambda: np.exp(x), lambda: np.add(x, 1), lambda: np.sum(x), lambda: np.concatenate([x, x]),
                    lambda: np.where(x, 1, 2), lambda: np.linalg.norm(x), lambda: np.zeros(3)[x],
                    lambda: operator.setitem(np.zeros((2, 3)), 0, x), lambda: bool(x), lambda: float(x), lambda: int(x),
                    lambda: complex(x), lambda: round(x), lambda: 3 in x, lambda: hash(x), lambda: [1, 2][x],
                    lambda: x == None, lambda: x + "a", lambda: divmod(x, 2), lambda: operator.setitem(x, 0, 1),
                    lambda: self.graph.constant([x, 1]), lambda: "%.2f" % x):  # noqa: E711 # fmt: skip
            before = len(self.graph)
            with self.assertRaises(TypeError):
                ask()
            self.assertEqual(len(self.graph), before)
        with self.assertRaises(TypeError):
            max(x)
        with self.assertRaises(TypeError):
            len(self.graph.scalar(1, "float32"))
        self.assertEqual((np.shape(x), np.ndim(x), len(x), len(list(x))), ((2, 3), 2, 2, 2))
        with self.assertRaisesRegex(TypeError, "kiln.sum"):
            np.sum(x)

    def test_sizes_and_numbers_too(self):
        n = self.graph.variable("n", 1, 4)
        for ask in (lambda: np.asarray(n), lambda: np.ones(3) * n, lambda: int(n), lambda: range(n), lambda: n < 3):
            with self.assertRaises(TypeError):
                ask()
        self.assertEqual(np.int64(2) * n, n + n)
        for value in ("3", None, 1j, np.array([3]), 10**400, b"1", np.complex64(1)):
            with self.subTest(repr(value)[:20]), self.assertRaises(kiln.InvalidArgument):
                self.graph.scalar(value, "float32")
        for attempt in (lambda: self.graph.zeros(2, 3), lambda: self.graph.arange(2, 7), lambda: self.graph.arange(2.5),
                        lambda: self.graph.param("y", (2,), 3)):  # fmt: skip
            with self.assertRaises(kiln.DTypeError):
                attempt()


class Operands(support.ServerTest):
    def test_numpys_numbers_and_arrays_stand_on_either_side(self):
        two = np.float32(2)
        for made in (lambda x: two * x, lambda x: x * two, lambda x: ARRAY + x, lambda x: x + ARRAY, lambda x: two - x,
                     lambda x: ARRAY / (x + two), lambda x: ARRAY.T @ x, lambda x: x @ ARRAY.T, lambda x: two**x,
                     lambda x: ARRAY == x, lambda x: two < x, lambda x: np.float32(1) == x, lambda x: x != ARRAY,
                     lambda x: x + [[1, 2, 3], [4, 5, 6]], lambda x: sum(x), lambda x: -x + np.int8(1)):  # fmt: skip
            graph = kiln.Graph()
            graph.output(made(graph.param("x", (2, 3))))
            given = ARRAY + np.float32(0.5)
            np.testing.assert_allclose(self.client.compile(graph)(given), made(given), rtol=1e-6)


class Copies(support.ServerTest):
    def test_a_copied_buffer_is_one_of_its_own(self):
        before = self.in_use()
        for copied in (copy.copy, copy.deepcopy, lambda x: copy.deepcopy({"w": [x]})["w"][0], lambda x: x.copy()):
            buffer = self.client.buffer(ARRAY)
            other = copied(buffer)
            self.assertNotEqual(other.handle, buffer.handle)
            other.fill(7, 0, 1)
            self.assertEqual(buffer.numpy().tolist(), ARRAY.tolist())
            del buffer
            gc.collect()
            self.client.flush_frees()
            self.assertEqual(other.numpy().tolist(), [[7, 1, 2], [3, 4, 5]])
            del other
        self.assertEqual(self.in_use(), before)

    def test_of_every_kind(self):
        row = copy.copy(self.client.buffer(ARRAY)[1])
        self.assertEqual((row.numpy().tolist(), row.is_view), ([3, 4, 5], False))
        raw = copy.copy(self.client.allocate(5).fill(9))
        self.assertEqual((raw.numpy().tolist(), raw.typed), ([9] * 5, False))
        twice = [self.client.buffer(ARRAY)] * 2
        self.assertEqual(len({id(one) for one in copy.deepcopy(twice)}), 1)
        at = copy.deepcopy(kiln.At(twice[0], 4))
        self.assertEqual((at.offset, at.buffer.numpy().tolist()), (4, ARRAY.tolist()))
        name = self.client.devices()[0].name
        shards = kiln.Shards([self.client.buffer(ARRAY, device=name)], 0)
        other = copy.copy(shards)
        shards.free()
        self.assertEqual(np.asarray(other).tolist(), ARRAY.tolist())
        freed = self.client.empty(3)
        freed.free()
        with self.assertRaises(kiln.BufferFreed):
            copy.copy(freed)

    def test_of_a_client_and_its_programs_there_is_one(self):
        program = self.client.compile(graphs.update())
        recording = self.client.record([(program, [kiln.Memory(0), kiln.Memory(1)])])
        for one in (self.client, program, recording):
            self.assertIs(copy.copy(one), one)
            self.assertIs(copy.deepcopy([one])[0], one)

    def test_nothing_of_a_process_is_pickled(self):
        program = self.client.compile(graphs.update())
        buffer = self.client.buffer(ARRAY)
        for one in (self.client, self.client.record([(program, [kiln.Memory(0), kiln.Memory(1)])]), buffer,
                    kiln.At(buffer, 0), [buffer], self.client._connection, kiln.Shards([buffer], 0)):  # fmt: skip
            for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
                with self.assertRaisesRegex(TypeError, "belongs to the process that made it"):
                    pickle.dumps(one, protocol)
        for fine in (kiln.float32, kiln.graph_hash(graphs.update()), program.graph, kiln.Memory(1)):
            self.assertEqual(pickle.loads(pickle.dumps(fine)), fine)

    def test_what_is_on_a_device_is_not_looked_at_unasked(self):
        buffer = self.client.buffer(ARRAY)
        for ask in (lambda: bool(buffer), lambda: 3.0 in buffer, lambda: float(buffer), lambda: buffer[True],
                    lambda: bool(self.client.empty(0)), lambda: list(self.client.empty(())), lambda: not buffer):  # fmt: skip
            with self.assertRaises(TypeError):
                ask()
        self.assertEqual([row.numpy().tolist() for row in buffer], ARRAY.tolist())
        np.testing.assert_array_equal(np.exp(buffer), np.exp(ARRAY))
        with self.assertRaises(kiln.DTypeError):
            self.client.empty(2, 3)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                buffer = await client.buffer(ARRAY)
                for ask in (lambda: copy.copy(buffer), lambda: copy.deepcopy(buffer), lambda: np.asarray(buffer),
                            lambda: list(buffer), lambda: bool(buffer), lambda: pickle.dumps(buffer), lambda: np.exp(buffer),
                            lambda: 3 in buffer, lambda: pickle.dumps(client)):  # fmt: skip
                    with self.assertRaises(TypeError):
                        ask()
                other = await buffer.copy()
                del buffer
                await client.flush_frees()
                self.assertEqual((await other.numpy()).tolist(), ARRAY.tolist())
                self.assertIs(copy.copy(client), client)

        asyncio.run(main())


class DTypes(unittest.TestCase):
    def test_they_equal_what_numpys_equal(self):
        kinds = [kind for kind in kiln.dtypes_by_name.values() if kind.itemsize]
        for kind in kinds:
            for other in kinds:
                same = kind is other
                for like in (other, other.numpy, other.numpy.type, other.name, other.numpy.name):
                    self.assertEqual((kind == like, like == kind, kind != like), (same, same, not same), (kind, like))
            self.assertEqual(np.dtype(kind), kind.numpy)
            self.assertEqual(np.zeros(1, kind).dtype, kind)
            self.assertEqual(hash(kind), hash(kind.numpy))
            self.assertEqual({kind: 1}[kind.numpy], 1)
            self.assertIn(kind, {kind.numpy})
        self.assertTrue(kiln.float64 == float and kiln.bool_ == bool and kiln.int64 == int and kiln.float32 == "f4")
        for other in (None, 12, "x", "(1,", object, list, np.dtype(">f4"), np.dtype("f4,i4"), np.complex64, [], "U3"):
            self.assertFalse(kiln.float32 == other, other)
            self.assertTrue(kiln.float32 != other, other)

    def test_what_names_none(self):
        for like in (True, 99, "float33", None, type(None)):
            with self.assertRaises(kiln.UnsupportedDType):
                kiln.dtype(like)
        self.assertIs(kiln.dtype("float8_e4m3fn"), kiln.float8_e4m3)


if __name__ == "__main__":
    unittest.main()
