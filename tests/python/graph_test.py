"""Graphs: in-place updates, symbolic sizes, gradients, nodes of any op, tags in errors."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import numpy as np

import kiln
from kiln.v1 import graph_pb2

X = np.arange(6, dtype=np.float32)


class Graphs(support.ServerTest):
    def test_equal_nodes_are_one_and_only_what_is_needed_is_sent(self):
        graph = kiln.Graph()
        x = graph.param("x", (6,))
        first, second = (x + 1) * 2, (x + 1) * 2
        self.assertEqual(first.node, second.node)
        x * 12345
        graph.output(first)
        message = graph.build()
        self.assertLess(len(message.nodes), len(graph) + 1)
        self.assertEqual(message.nodes[-1].op, graph_pb2.TUPLE)
        self.assertEqual(self.client.compile(graph).hash, kiln.graph_hash(message))

    def test_a_shape_that_comes_again_is_the_node_that_it_was(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 3)
        plain, symbolic, empty = graph.shape_node((2, 3)), graph.shape_node((2, n)), graph.shape_node(())
        self.assertEqual(len({plain, symbolic, empty}), 3)
        nodes = len(graph)
        self.assertEqual([graph.shape_node(shape) for shape in ([2, 3], (2, n), ())], [plain, symbolic, empty])
        self.assertEqual(len(graph), nodes)
        with self.assertRaises(TypeError):  # 2.0 == 2, and is no size
            graph.shape_node((2.0, 3))

    def test_updates_of_parameters_and_of_views(self):
        graph = kiln.Graph()
        x = graph.param("x", (6,))
        y = graph.param("y", (2, 3))
        after = graph.assign(x[1:4], x[2:5] * 10)
        graph.output(after + 100, after)
        graph.update(y.T[0], 5)
        program = self.client.compile(graph)
        bx, by = self.client.buffer(X), self.client.buffer(X.reshape(2, 3))
        total, same = program(bx, by)
        expected = [0, 20, 30, 40, 4, 5]
        self.assertEqual(bx.numpy().tolist(), expected)
        self.assertIs(same, bx)
        self.assertEqual(total.tolist(), [value + 100 for value in expected])
        self.assertEqual(by.numpy().tolist(), [[5, 1, 2], [5, 4, 5]])

    def test_variables(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 8)
        x = graph.param("x", (n, 2), "float32")
        self.assertEqual(x.size, 2 * n)
        self.assertEqual(x.reshape(-1).shape, (2 * n,))
        self.assertEqual(repr(n + n + 1), "2*n + 1")
        graph.output(x + x, x.sum(0), x.mean(0), x.reshape(-1), x[:n], x.T @ x)
        program = self.client.compile(graph)
        for size in (1, 3, 8):
            a = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
            double, total, mean, flat, same, square = program(a, n=size)
            self.assertEqual(double.tolist(), (a + a).tolist())
            np.testing.assert_allclose(total, a.sum(0), rtol=1e-6)
            np.testing.assert_allclose(mean, a.mean(0), rtol=1e-6)
            self.assertEqual(flat.shape, (2 * size,))
            self.assertEqual(same.tolist(), a.tolist())
            np.testing.assert_allclose(square, a.T @ a, rtol=1e-6)
        buffer = self.client.buffer(np.ones((5, 2), np.float32))
        self.assertEqual(program(buffer, n=5, out="buffers")[0].shape, (5, 2))
        with self.assertRaises(kiln.InvalidArgument) as caught:
            program(np.ones((9, 2), np.float32), n=9)
        self.assertEqual(caught.exception.slot, 0)
        with self.assertRaises(kiln.ShapeError):
            x + graph.ones((n + 1, 2))
        with self.assertRaises(kiln.ShapeError):
            x.reshape(3, -1)

    def test_symbolic_tensors_are_padded_and_joined(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 8)
        x = graph.param("x", (n,), "float32")
        graph.output(kiln.concatenate([x, graph.ones((2,)), x]), kiln.pad(x, ((n, 1),), 7))
        program = self.client.compile(graph)
        for size in (1, 3, 8):
            a = np.arange(size, dtype=np.float32)
            joined, padded = program(a, n=size)
            self.assertEqual(joined.tolist(), [*a, 1, 1, *a])
            self.assertEqual(padded.tolist(), [*[7] * size, *a, 7])
        with self.assertRaises(kiln.ShapeError):
            kiln.pad(x, ((-n, 0),))

    def test_a_size_beyond_int32_is_computed_in_int64(self):
        graph = kiln.Graph()
        n, m = graph.variable("n", 1, 1 << 20), graph.variable("m", 1, 1 << 20)
        graph.output(graph.dim(n * m), graph.dim(n + m))
        product, total = self.client.compile(graph)(n=1 << 19, m=1 << 18)
        self.assertEqual((product.tolist(), total.tolist()), (1 << 37, (1 << 19) + (1 << 18)))
        self.assertEqual((product.dtype, total.dtype), (np.int64, np.int32))

    def test_gradients_of_a_least_squares_fit(self):
        graph = kiln.Graph()
        a, w, y = graph.param("a", (5, 3), "float64"), graph.param("w", (3,), "float64"), graph.param("y", (5,), "float64")
        loss = kiln.square(a @ w - y).mean()
        graph.output(loss)
        gradient = self.client.gradient(graph, wrt=[w], include_results=True)
        step = kiln.Graph()
        same_w = step.param("w", (3,), "float64", slot=1)
        value, dw = step.append(gradient)
        step.output(value, step.assign(same_w, same_w - 0.1 * dw))
        program = self.client.compile(step)
        random = np.random.default_rng(3)
        data, target = random.normal(size=(5, 3)), random.normal(size=5)
        weights, expected = self.client.buffer(np.zeros(3)), np.zeros(3)
        for _ in range(4):
            value, _ = program(data, weights, target)
            np.testing.assert_allclose(value, np.mean((data @ expected - target) ** 2), rtol=1e-12)
            expected -= 0.1 * 2 / 5 * data.T @ (data @ expected - target)
        np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-12)
        other = kiln.Graph()
        other.param("w", (4,), "float64", slot=1)
        with self.assertRaises(kiln.ShapeError):
            other.append(gradient)

    def test_nodes_of_any_op(self):
        graph = kiln.Graph()
        x = graph.param("x", (6,))
        reduced = graph.node("REDUCE", [x.node], reduce=graph_pb2.ReduceArg(op=graph_pb2.MAX, axis=[0]))
        graph.output(graph.tensor(reduced, "float32", (1,)))
        self.assertEqual(self.client.compile(graph)(X).tolist(), [5])
        nodes = [("CONST", (), {"constant": graph_pb2.ConstArg(dtype=19, i=6)}), ("STACK", (0,)),
                 ("PARAM", (1,), {"buffer": graph_pb2.BufferArg(slot=0, dtype=12)}),
                 (graph_pb2.ADD, (2, 2)), graph_pb2.UOp(op=graph_pb2.TUPLE, src=[3])]  # fmt: skip
        message = kiln.message_of_nodes(nodes)
        self.assertEqual(self.client.compile(message)(X).tolist(), (2 * X).tolist())

    def test_a_tag_comes_back_with_the_error(self):
        graph = kiln.Graph()
        x = graph.param("x", (6,))
        bad = graph.tensor(graph.node("MUL", [x.node, graph.param("i", (6,), "int32").node]), "float32", (6,)).tag("here")
        graph.output(bad)
        with self.assertRaises(kiln.InvalidArgument) as caught:
            self.client.compile(graph)
        error = caught.exception
        self.assertEqual((error.code, error.op, error.tag), ("DTYPE_MISMATCH", "MUL", "here"))
        self.assertEqual(graph.build().nodes[error.node].tag, "here")

    def test_compile_options(self):
        graph = kiln.Graph()
        x = graph.param("x", (6,))
        graph.output(x.sum())
        program = self.client.compile(graph, deterministic=True)
        self.assertTrue(program.options.deterministic)
        self.assertEqual(program(X), 15)
        with self.assertRaises(ValueError):
            self.client.compile(graph, fastest=True)


if __name__ == "__main__":
    unittest.main()
