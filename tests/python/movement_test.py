"""Movement and indexing by the graph builder give what numpy gives."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np
from ops_cases import Batch, values

import kiln

DTYPES = ("bool", "int8", "uint16", "int64", "float16", "float32", "float64")


class Movement(support.ServerTest):
    def setUp(self):
        self.random = np.random.default_rng(12)

    def test_shapes(self):
        for dtype in DTYPES:
            batch = Batch()
            a = values(self.random, dtype, (2, 3, 4))
            x = batch.param(a)
            for name, tensor, expected in (
                ("reshape", x.reshape(6, 4), a.reshape(6, 4)),
                ("reshape -1", x.reshape((4, -1)), a.reshape(4, -1)),
                ("flatten", x.flatten(), a.flatten()),
                ("T", x.T, a.T),
                ("transpose", x.transpose(1, 0, 2), a.transpose(1, 0, 2)),
                ("permute", x.permute((2, 0, 1)), a.transpose(2, 0, 1)),
                ("swapaxes", x.swapaxes(0, -1), a.swapaxes(0, -1)),
                ("moveaxis", kiln.moveaxis(x, 0, 2), np.moveaxis(a, 0, 2)),
                ("expand_dims", kiln.expand_dims(x, -1), np.expand_dims(a, -1)),
                ("squeeze", kiln.expand_dims(x, 1).squeeze(), a),
                ("broadcast_to", kiln.broadcast_to(x[:, :1], (5, 2, 3, 4)), np.broadcast_to(a[:, :1], (5, 2, 3, 4))),
                ("expand", x[:, :1].expand(-1, 6, -1), np.broadcast_to(a[:, :1], (2, 6, 4))),
                ("pad", x.pad(((0, 1), (2, 0), (0, 0))), np.pad(a, ((0, 1), (2, 0), (0, 0)))),
                ("pad 1", kiln.pad(x, 1, 1), np.pad(a, 1, constant_values=1)),
                ("flip", x.flip(), np.flip(a)),
                ("flip 1", kiln.flip(x, (0, 2)), np.flip(a, (0, 2))),
                ("shrink", x.shrink([(0, 1), (1, 3), (4, 4)]), a[0:1, 1:3, 4:4]),
                ("tile", kiln.tile(x, (2, 1, 3)), np.tile(a, (2, 1, 3))),
                ("stack", kiln.stack([x, x + x], 1), np.stack([a, a + a], 1)),
                ("concatenate", kiln.concatenate([x, x[:, :2]], 1), np.concatenate([a, a[:, :2]], 1)),
            ):
                batch.add("%s %s" % (name, dtype), tensor, expected)
            batch.run(self, self.client)

    def test_basic_indexing(self):
        for dtype in DTYPES:
            batch = Batch()
            a = values(self.random, dtype, (4, 5, 6))
            x = batch.param(a)
            for key in (0, -1, (1, 2), (1, 2, 3), (slice(None), -2), (Ellipsis, 1), (0, Ellipsis, 1), None,
                        (None, 1, None), slice(1, 3), slice(-3, None), slice(None, None, 2), slice(None, None, -1),
                        (slice(3, 0, -2), slice(1, 100, 3)), slice(3, 1), (Ellipsis, slice(4, None, -3)), (), Ellipsis,
                        (slice(0, 0), 1), np.int64(2)):  # fmt: skip
                batch.add("x[%s] %s" % (key, dtype), x[key], a[key])
            for at, row in enumerate(x):
                batch.add("row %d" % at, row, a[at])
            batch.run(self, self.client)

    def test_indexing_by_places(self):
        for dtype in DTYPES:
            batch = Batch()
            a = values(self.random, dtype, (4, 5, 6))
            ids = self.random.integers(-4, 4, (2, 3))
            x, places = batch.param(a), batch.param(ids)
            small = batch.param(np.array([0, 3, 1], np.uint8))
            for name, tensor, expected in (
                ("x[ids]", x[places], a[ids]),
                ("x[:, ids]", x[:, places], a[:, ids]),
                ("x[1:, :, ids]", x[1:, :, places], a[1:, :, ids]),
                ("x[list]", x[[0, -1]], a[[0, -1]]),
                ("x[array]", x[..., np.array([5, 0])], a[..., np.array([5, 0])]),
                ("x[uint8]", x[small], a[[0, 3, 1]]),
                ("take", kiln.take(x, places), np.take(a, ids)),
                ("take axis", x.take(places, 1), np.take(a, ids, 1)),
            ):
                batch.add("%s %s" % (name, dtype), tensor, expected)
            for axis in range(3):
                shape = list(a.shape)
                shape[axis] = 3
                along = self.random.integers(-a.shape[axis], a.shape[axis], shape)
                mine = kiln.take_along_axis(x, batch.param(along), axis)
                batch.add("take_along_axis %d %s" % (axis, dtype), mine, np.take_along_axis(a, along, axis))
            batch.run(self, self.client)

    def test_a_place_outside_reads_zero(self):
        batch = Batch()
        x = batch.param(np.arange(1, 7, dtype=np.int32).reshape(2, 3))
        batch.add("take", x[:, np.array([1, 3, -4, 2])], np.int32([[2, 0, 0, 3], [5, 0, 0, 6]]))
        mine = kiln.take_along_axis(x, np.array([[3], [-4]]), 1)
        batch.add("along", mine, np.int32([[0], [0]]))
        batch.run(self, self.client)

    def test_bitcast(self):
        batch = Batch()
        a = self.random.normal(size=(3, 4)).astype(np.float32)
        x = batch.param(a)
        for dtype in ("uint32", "int32", "uint8", "int16", "float64", "int64"):
            batch.add(dtype, x.bitcast(dtype), a.view(dtype))
        batch.run(self, self.client)

    def test_constants(self):
        batch = Batch()
        for dtype in DTYPES + ("uint8", "uint64"):
            for shape in ((), (3,), (2, 0), (2, 3)):
                a = values(self.random, dtype, shape)
                batch.add("constant %s %s" % (dtype, shape), batch.graph.constant(a), a)
        batch.add("list", batch.graph.constant([1, 2], "float32"), np.float32([1, 2]))
        batch.add("full", batch.graph.full((2, 3), 7, "int8"), np.full((2, 3), 7, np.int8))
        batch.add("ones", batch.graph.ones(3), np.ones(3, np.float32))
        for stop in (0, 1, 2, 5, 64, 100):
            batch.add("arange %d" % stop, batch.graph.arange(stop), np.arange(stop))
        batch.add("arange float", batch.graph.arange(5, "float32"), np.arange(5, dtype=np.float32))
        batch.run(self, self.client)

    def test_what_does_not_fit_raises_where_it_is_made(self):
        graph = kiln.Graph()
        x = graph.param("x", (2, 3), "float32")
        i = graph.param("i", (2, 3), "int32")
        for kind, code, attempt in (
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x.reshape(4, 2)),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x.reshape(-1, 4)),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x + graph.zeros((2,))),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x @ x),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x.broadcast_to((3, 3))),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x.shrink([(0, 3), (0, 3)])),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x.pad(((0, -1), (0, 0)))),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x[0, 0, 0]),
            (kiln.ShapeError, "OUT_OF_BOUNDS", lambda: x[2]),
            (kiln.ShapeError, "BAD_ARGUMENT", lambda: x.sum(2)),
            (kiln.ShapeError, "BAD_ARGUMENT", lambda: x.sum((0, -2))),
            (kiln.ShapeError, "BAD_ARGUMENT", lambda: x.transpose(0, 0)),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: x[[0, 1], [0, 1, 2]]),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: kiln.concatenate([x, x.T])),
            (kiln.DTypeError, "DTYPE_MISMATCH", lambda: x & x),
            (kiln.DTypeError, "DTYPE_MISMATCH", lambda: x << x),
            (kiln.DTypeError, "DTYPE_MISMATCH", lambda: x[x]),
            (kiln.DTypeError, "DTYPE_MISMATCH", lambda: kiln.where(x, x, x)),
            (kiln.UnsupportedDType, "DTYPE_MISMATCH", lambda: x * 1j),
            (kiln.UnsupportedDType, "DTYPE_MISMATCH", lambda: graph.param("c", (2,), complex)),
            (kiln.DTypeError, "BAD_ARGUMENT", lambda: graph.param("c", (2,), "void")),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: graph.param("y", (9,), slot=0)),
            (kiln.InvalidArgument, "BAD_ARGUMENT", lambda: i + (1 << 40)),
            (kiln.InvalidArgument, "BAD_ARGUMENT", lambda: graph.scalar(0.5, "int8")),
            (kiln.GraphError, "BAD_ARGUMENT", lambda: x + kiln.Graph().ones((2, 3))),
            (kiln.GraphError, "BAD_ARGUMENT", lambda: kiln.stack([])),
            (kiln.GraphError, "BAD_ARGUMENT", lambda: graph.update(x + 1, x)),
            (kiln.DTypeError, "DTYPE_MISMATCH", lambda: graph.update(x, i)),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: graph.update(x, graph.ones((3, 3)))),
            (kiln.GraphError, "BAD_ROOT", lambda: graph.build()),
            (kiln.GraphError, "UNKNOWN_OP", lambda: graph.node("ADDD", [0])),
        ):
            with self.assertRaises(kind) as caught:
                attempt()
            self.assertEqual(caught.exception.code, code, caught.exception)
        with self.assertRaises(TypeError):
            bool(x == x)


if __name__ == "__main__":
    unittest.main()
