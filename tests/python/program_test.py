"""Compile and Execute by messages: arguments and results in every form."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
from kiln import encode
from kiln.v1 import kernel_service_pb2

X = np.arange(4, dtype=np.float32)


class Programs(support.ServerTest):
    def test_arrays_and_buffers_in_and_out(self):
        add = self.client.compile(graphs.elementwise("ADD"))
        x, y = self.client.buffer(X), self.client.buffer(X * 10)
        expected = (X * 11).tolist()
        for first in (X, x, X.tolist(), kiln.At(x, 0)):
            for second in (X * 10, y):
                self.assertEqual(add(first, second).tolist(), expected)
                result = add(first, second, out="buffers")
                self.assertIsInstance(result, kiln.Buffer)
                self.assertEqual(result.numpy().tolist(), expected)
        self.assertEqual(add(y=y, x=X).tolist(), expected)
        self.assertEqual(add.run({0: x, 1: y}).results[0].tolist(), expected)
        wide = self.client.buffer(np.arange(8, dtype=np.float32))
        self.assertEqual(add(kiln.At(wide, 16), X).tolist(), [4, 6, 8, 10])

    def test_what_is_known_of_a_program(self):
        graph = graphs.elementwise("MUL")
        program = self.client.compile(graph)
        self.assertEqual(program.hash, kiln.graph_hash(graph))
        self.assertEqual(program.graph, graph)
        self.assertTrue(self.client.compile(graph).from_cache)
        self.assertIn("float32 (4,)", repr(program))
        run = program.run([X, X], timing=True)
        self.assertGreater(run.timing.total_us, 0)
        self.assertTrue(run.from_cache)
        stages = self.client.explain(program).stages
        self.assertGreater(len(stages), 3)
        self.assertEqual(self.client.explain(program.hash).graph_hash, program.hash)
        self.assertIn("for", self.client.explain(graph, source="c", stages=["source"]).stages[0].text)
        self.assertIn(program.hash, [row.graph_hash for row in self.client.programs().programs])

    def test_constants_may_change_all_the_same(self):
        graph = kiln.Graph()
        x, w = graph.param("x", (8, 512)), graph.param("w", (512, 256))
        graph.output(x @ w)
        a = np.arange(8 * 512, dtype=np.float32).reshape(8, 512) % 7
        first, second = (np.arange(512 * 256, dtype=np.float32).reshape(512, 256) % n for n in (5, 11))
        weights = self.client.buffer(first)
        for constants in (["w"], [w], [1], ["w", 0]):
            product = self.client.compile(graph, constants=constants)
            weights.write(first)
            for _ in range(2):
                self.assertTrue((product(a, weights) == a @ first).all())
            weights.write(second)
            self.assertTrue((product(a, weights) == a @ second).all())
        self.assertTrue(self.client.compile(graph, constants=["w"]).from_cache)
        with self.assertRaises(kiln.GraphError) as caught:
            self.client.compile(graph, constants=["weights"])
        self.assertIn("there are x, w", str(caught.exception))

    def test_the_server(self):
        self.client.health()
        name = self.client.devices()[0].name
        self.assertEqual(self.client.describe_device(name).name, name)
        self.assertIn("execute_by_hash", self.client.features)

    def test_updates_in_place(self):
        program = self.client.compile(graphs.update())
        x = self.client.buffer(X)
        self.assertIs(program(x, X), x)
        self.assertEqual(x.numpy().tolist(), (2 * X).tolist())
        self.assertIs(program(x, X, out="buffers"), x)
        self.assertEqual(x.numpy().tolist(), (3 * X).tolist())
        self.assertEqual(program(X, X).tolist(), (2 * X).tolist())
        self.assertEqual(X.tolist(), [0, 1, 2, 3])

    def test_a_gradient_as_a_graph(self):
        graph = graphs.elementwise("MUL", shape=(1,))
        gradient = self.client.gradient(graph, wrt=[0, 1])
        program = self.client.compile(gradient.graph)
        dx, dy = program(np.float32([3]), np.float32([5]))
        self.assertEqual((dx[0], dy[0], len(gradient.results)), (5, 3, 2))

    def test_what_does_not_fit_is_refused_before_it_is_sent(self):
        add = self.client.compile(graphs.elementwise("ADD"))
        calls = self.client.traffic["KernelService.Execute"].calls if "KernelService.Execute" in self.client.traffic else 0
        for kind, code, attempt in (
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: add(X[:2], X)),
            (kiln.ShapeError, "SHAPE_MISMATCH", lambda: add(1.0, X)),
            (kiln.DTypeError, "BUFFER_DTYPE_MISMATCH", lambda: add(X.astype(np.float64), X)),
            (kiln.UnsupportedDType, "DTYPE_MISMATCH", lambda: add(X.astype(complex), X)),
            (kiln.InvalidArgument, "UNKNOWN_ARGUMENT", lambda: add(X, X, X)),
            (kiln.InvalidArgument, "UNKNOWN_ARGUMENT", lambda: add(X, z=X)),
            (kiln.InvalidArgument, "BAD_ARGUMENT", lambda: add(X, x=X)),
            (kiln.InvalidArgument, None, lambda: add(X, X, out="elsewhere")),
        ):
            with self.assertRaises(kind) as caught:
                attempt()
            self.assertEqual(caught.exception.code, code)
        row = self.client.traffic.get("KernelService.Execute")
        self.assertEqual(row.calls if row else 0, calls)

    def test_what_the_server_refuses(self):
        add = self.client.compile(graphs.elementwise("ADD"))
        with self.assertRaises(kiln.InvalidArgument) as caught:
            add(X)
        self.assertEqual((caught.exception.code, caught.exception.slot), ("MISSING_ARGUMENT", 1))
        with self.assertRaises(kiln.InvalidArgument) as caught:
            add(X, self.client.empty((3,)))
        self.assertEqual(caught.exception.code, "BUFFER_SIZE_MISMATCH")
        graph = graphs.elementwise("ADD")
        graph.nodes[-2].src[1] = 99
        graph.nodes[-2].tag = "the sum"
        with self.assertRaises(kiln.InvalidArgument) as caught:
            self.client.compile(graph)
        error = caught.exception
        self.assertEqual((error.code, error.node, error.op, error.tag), ("SOURCE_OUT_OF_RANGE", 4, "ADD", "the sum"))
        self.assertEqual(error.status.name, "INVALID_ARGUMENT")
        self.assertIn("SOURCE_OUT_OF_RANGE", str(error))

    def test_large_arrays_go_and_come_through_buffers(self):
        size = 3 << 20
        before = self.in_use()
        add = self.client.compile(graphs.elementwise("ADD", shape=(size,)))
        x = np.arange(size, dtype=np.float32)
        self.assertTrue((add(x, x) == 2 * x).all())
        self.assertEqual(self.in_use(), before)
        update = self.client.compile(graphs.update(shape=(size,)))
        self.assertTrue((update(x, x) == 2 * x).all())
        self.assertEqual(self.in_use(), before)
        kept = update(x, x, out="buffers")
        self.assertEqual(kept.read(3, 1)[0], 6)
        given = self.client.buffer(x)
        self.assertIs(update(given, x), given)
        self.assertEqual(given.read(size - 1)[0], 2 * x[-1])

    def test_results_are_given_back(self):
        add = self.client.compile(graphs.elementwise("ADD"))
        before = self.in_use()
        for _ in range(20):
            add(X, X, out="buffers")
        self.assertEqual(self.in_use(), before)


class Forgotten(unittest.TestCase):
    def test_the_graph_is_sent_again_once(self):
        server = support.Server()
        self.addCleanup(server.stop)
        client = kiln.connect(server.address)
        program = client.compile(graphs.elementwise("ADD"))
        other = support.Server()
        self.addCleanup(other.stop)
        # The same program at a server that has never seen its graph.
        elsewhere = kiln.connect(other.address)
        moved = kiln.Program(elsewhere._connection, program._graph, program.options,
                             kernel_service_pb2.CompileResponse(graph_hash=program.hash, signature=program.signature))
        self.assertFalse(moved.run([X, X]).from_cache)
        self.assertTrue(moved.run([X, X]).from_cache)
        self.assertEqual(moved(X, X).tolist(), (2 * X).tolist())
        elsewhere.close()
        client.close()


class Encoding(unittest.TestCase):
    """What encode.py writes by hand is what protobuf reads."""

    def test_arguments(self):
        data = memoryview(X.tobytes())
        pieces, wanted = [], kernel_service_pb2.ExecuteRequest(device="CPU:0")
        for slot in (0, 1, 127, 128, 70000):
            for handle, offset in ((1, 0), (2**64 - 1, 1), (7, 2**40)):
                pieces.append(encode.handle_argument(slot, handle, offset))
                argument = wanted.arguments.add(slot=slot)
                argument.buffer.handle, argument.buffer.offset = handle, offset
            for handles in ([3], [2**64 - 1, 0, 9], list(range(40))):
                pieces.append(encode.handle_arguments(slot, handles))
                argument = wanted.arguments.add(slot=slot)
                if len(handles) == 1:
                    argument.buffer.handle = handles[0]
                else:
                    argument.handles.handle.extend(handles)
            for value in (0, -1, 5, -(2**63), 2**63 - 1):
                pieces.append(encode.integer_argument(slot, value))
                wanted.arguments.add(slot=slot, integer=value)
            for shape in ((), (4,), (2, 300, 1)):
                pieces += encode.tensor_argument(slot, 12, shape, data)
                argument = wanted.arguments.add(slot=slot)
                argument.tensor.dtype, argument.tensor.data = 12, bytes(data)
                argument.tensor.shape.extend(shape)
        prefix = kernel_service_pb2.ExecuteRequest(device="CPU:0").SerializeToString()
        self.assertEqual(kernel_service_pb2.ExecuteRequest.FromString(b"".join([prefix, *pieces])), wanted)
        with self.assertRaises(OverflowError):
            encode.integer_argument(0, 2**63)

    def test_replayed_memory(self):
        for places, longer in (([], 0), ([(5, 0)], 0), ([(5, 0), (6, 64), (2**64 - 1, 0), (8, 0)], 2), ([(5, 8)], 1)):
            wanted = kernel_service_pb2.ReplaySequenceRequest(handles=[handle for handle, _ in places[longer:]])
            for handle, offset in places[:longer]:
                wanted.buffers.add(handle=handle, offset=offset)
            message = b"".join(encode.replayed_memory(places))
            self.assertEqual(kernel_service_pb2.ReplaySequenceRequest.FromString(message), wanted)


if __name__ == "__main__":
    unittest.main()
