"""Collectives over one to eight devices are what numpy says, for every dtype, and bad ones say what is wrong."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
from kiln import dtypes

STORED = [row for row in dtypes.BY_NUMBER.values() if row.itemsize]
COUNTS = (0, 1, 5, 64, 1023)
OPS = ("sum", "prod", "max")


def is_float(kind):
    return kind.numpy.kind == "f" or kind.name.startswith(("bfloat", "float"))


def random_array(random, kind, count):
    """Any bits of integers; floats near 1, so that products stay finite, and now and then a NaN."""
    if kind is kiln.bool_:
        return random.integers(0, 2, count).astype(np.bool_)
    if not is_float(kind):
        bits = random.integers(0, 256, (count, kind.itemsize), dtype=np.uint8)
        return bits.view(kind.numpy).reshape(count)
    values = random.normal(1, 0.5, count)
    values[random.random(count) < 0.02] = np.nan
    return values.astype(np.float32 if kind.itemsize < 8 else np.float64).astype(kind.numpy)


def reduced(op, arrays, kind):
    """In the order of the ranks, in float32 for narrower floats, rounded once."""
    if kind is kiln.bool_:
        return {"sum": np.logical_or, "prod": np.logical_and, "max": np.logical_or}[op].reduce(arrays)
    ufunc = {"sum": np.add, "prod": np.multiply, "max": np.maximum}[op]
    narrow = is_float(kind) and kind.itemsize < 4
    arrays = [array.astype(np.float32) if narrow else array for array in arrays]
    total = arrays[0]
    with np.errstate(all="ignore"):
        for array in arrays[1:]:
            total = ufunc(total, array)
        return total.astype(kind.numpy)


class OnEightDevices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = support.Server("--cpu_devices=8")
        cls.addClassCleanup(cls.server.stop)
        cls.client = kiln.connect(cls.server.address)
        cls.addClassCleanup(cls.client.close)

    def buffers(self, arrays, first=0):
        return [self.client.buffer(a, device="CPU:%d" % (first + i)) for i, a in enumerate(arrays)]

    def empties(self, like, first=0):
        return [self.client.empty(a.shape, a.dtype, device="CPU:%d" % (first + i)) for i, a in enumerate(like)]

    def same(self, buffer, array, what):
        got = buffer.numpy()
        self.assertEqual(got.dtype, array.dtype)
        # A NaN is a NaN, whatever its bits.
        if is_float(buffer.dtype):
            wide = np.float64 if got.dtype.itemsize == 8 else np.float32
            np.testing.assert_array_equal(got.astype(wide), array.astype(wide), err_msg=str(what))
        else:
            self.assertEqual(got.tobytes(), array.tobytes(), what)


class Values(OnEightDevices):
    def test_reductions(self):
        random = np.random.default_rng(3)
        for kind in STORED:
            for op in OPS:
                ranks = int(random.integers(1, 9))
                count = int(random.choice(COUNTS))
                root = int(random.integers(0, ranks))
                with self.subTest(kind=kind, op=op, ranks=ranks, count=count, root=root):
                    arrays = [random_array(random, kind, count) for _ in range(ranks)]
                    want = reduced(op, arrays, kind)
                    parts = np.array_split(want, ranks)
                    inputs, order = self.buffers(arrays), {"op": op, "deterministic_order": True}
                    one = self.client.empty(want.shape, want.dtype, device="CPU:%d" % root)
                    self.client.reduce(inputs, one, root=root, **order)
                    self.same(one, want, "reduce")
                    outputs = self.empties(parts)
                    self.client.reduce_scatter(inputs, outputs, **order)
                    for output, part in zip(outputs, parts):
                        self.same(output, part, "reduce_scatter")
                    outputs = self.empties(arrays)
                    answer = self.client.all_reduce(inputs, outputs, **order)
                    self.assertIn(answer.algorithm, ("naive", "all_to_all"))
                    for output in outputs:
                        self.same(output, want, "all_reduce")
                    self.client.all_reduce(inputs, **order)
                    for given in inputs:
                        self.same(given, want, "in place")

    def test_every_number_of_devices_and_every_op(self):
        random = np.random.default_rng(4)
        for ranks in range(1, 9):
            for count in (COUNTS[ranks % len(COUNTS)], 1023):
                # Whole numbers: exact in any order, so any algorithm will do.
                arrays = [random.integers(-3, 4, count).astype(np.float32) for _ in range(ranks)]
                inputs = self.buffers(arrays)
                for op in OPS:
                    outputs = self.empties(arrays)
                    self.client.all_reduce(inputs, outputs, op=op)
                    for output in outputs:
                        np.testing.assert_array_equal(output.numpy(), reduced(op, arrays, kiln.float32))

    def test_large_enough_for_every_algorithm(self):
        arrays = [np.arange(300_001, dtype=np.int32) * (i + 1) for i in range(4)]
        buffers = self.buffers(arrays)
        for _ in range(20):
            answer = self.client.all_reduce(buffers)
            self.assertGreater(answer.bus_bandwidth_gb_s, 0)
            arrays = [sum(arrays)] * 4
        with np.errstate(all="ignore"):
            for buffer in buffers:
                self.same(buffer, arrays[0], "twenty sums")

    def test_moves(self):
        random = np.random.default_rng(5)
        for ranks in range(1, 9):
            for count, kind in ((0, kiln.int8), (3, kiln.float64), (64, kiln.bool_), (1001, kiln.float16), (70_001, kiln.int32)):
                root = int(random.integers(0, ranks))
                with self.subTest(ranks=ranks, count=count, root=root):
                    whole = random_array(random, kind, count)
                    parts = np.array_split(whole, ranks)
                    source = self.client.buffer(whole, device="CPU:%d" % root)
                    outputs = self.empties([whole] * ranks)
                    self.client.broadcast(source, outputs, root=root)
                    for output in outputs:
                        self.same(output, whole, "broadcast")
                    outputs = self.empties(parts)
                    self.client.scatter(source, outputs, root=root)
                    for output, part in zip(outputs, parts):
                        self.same(output, part, "scatter")
                    self.client.gather(self.buffers(parts), source.fill(0), root=root)
                    self.same(source, whole, "gather")
                    outputs = self.empties([whole] * ranks)
                    self.client.all_gather(self.buffers(parts), outputs)
                    for output in outputs:
                        self.same(output, whole, "all_gather")

    def test_between_other_devices_and_in_another_order(self):
        arrays = [np.full(10, i, np.int64) for i in (1, 20, 300)]
        buffers = [self.client.buffer(a, device=d) for a, d in zip(arrays, ("CPU:6", "CPU:2", "CPU:4"))]
        self.client.all_reduce(buffers)
        for buffer in buffers:
            self.assertEqual(buffer.numpy().tolist(), [321] * 10)


class WithoutWaiting(OnEightDevices):
    def test_they_stand_in_order_among_other_commands(self):
        client = self.client
        parts = [client.buffer(np.full(5, i + 1.0), np.float32, device="CPU:%d" % i) for i in range(4)]
        whole = client.empty((20,), device="CPU:2")
        client.all_reduce(parts, wait=False)
        parts[1].fill(7.0)
        client.gather(parts, whole, root=2, wait=False)
        client.reduce(parts, parts[3], op="max", root=3, wait=False)
        np.testing.assert_array_equal(whole.numpy(), np.repeat([10, 7, 10, 10], 5))
        np.testing.assert_array_equal(parts[3].numpy(), np.full(5, 10))
        client.scatter(whole, parts, root=2, wait=False)
        client.all_gather(parts, [whole, client.empty((20,), device="CPU:0")], wait=False)  # too few
        with self.assertRaises(kiln.InvalidArgument) as caught:
            whole.numpy()
        self.assertEqual(caught.exception.field, "output")
        np.testing.assert_array_equal(parts[1].numpy(), np.full(5, 7))


class BadInput(OnEightDevices):
    def fails(self, error, code, field, call, *arguments, **keywords):
        with self.assertRaises(error) as caught:
            call(*arguments, **keywords)
        self.assertEqual((caught.exception.code, caught.exception.field), (code, field))

    def test_each_says_what_is_wrong(self):
        a, b, c = self.buffers([np.zeros(6, np.float32)] * 3)
        client = self.client
        again = client.buffer(np.zeros(6, np.float32), device="CPU:1")
        self.fails(kiln.InvalidArgument, "DUPLICATE_DEVICE", "rank 2", client.all_reduce, [a, b, again])
        short = client.buffer(np.zeros(5, np.float32), device="CPU:1")
        self.fails(kiln.KilnError, "OUT_OF_BOUNDS", "input 1", client.all_reduce, [a, short, c])
        ints = client.buffer(np.zeros(6, np.int32), device="CPU:2")
        self.fails(kiln.InvalidArgument, "BUFFER_DTYPE_MISMATCH", "input 2", client.all_reduce, [a, b, ints])
        self.fails(kiln.InvalidArgument, "BAD_ARGUMENT", "output", client.all_reduce, [a, b, c], [a, b])
        self.fails(kiln.InvalidArgument, "BUFFER_DEVICE_MISMATCH", "output 1", client.all_reduce, [a, b, c], [a, c, b])
        self.fails(kiln.InvalidArgument, "BAD_ARGUMENT", "root", client.broadcast, a, [a, b], root=2)
        self.fails(kiln.InvalidArgument, "BUFFER_DEVICE_MISMATCH", "input 0", client.broadcast, a, [a, b], root=1)
        both = client.buffer(np.zeros(9, np.float32), device="CPU:1")
        self.fails(kiln.InvalidArgument, "BAD_ARGUMENT", "output 1", client.all_reduce, [a, both[0:6], c],
                   [a, both[3:9], c])  # fmt: skip
        with self.assertRaises(kiln.InvalidArgument):
            client.all_reduce([])
        with self.assertRaises(kiln.InvalidArgument):
            client.all_reduce([a, b], op="mean")

    def test_handles_of_another_session(self):
        with kiln.connect(self.server.address) as other:
            theirs = other.buffer(np.zeros(6, np.float32), device="CPU:1")
            mine = self.client.buffer(np.zeros(6, np.float32), device="CPU:0")
            self.fails(kiln.NotFound, "UNKNOWN_HANDLE", "input 1", self.client.all_reduce, [mine, theirs])

    def test_a_failed_collective_writes_nothing(self):
        a, b = self.buffers([np.ones(4, np.float32)] * 2)
        self.fails(kiln.InvalidArgument, "BAD_ARGUMENT", "output", self.client.all_reduce,
                   [a, b], [a])  # fmt: skip
        self.assertEqual(a.numpy().tolist(), [1] * 4)


if __name__ == "__main__":
    unittest.main()
