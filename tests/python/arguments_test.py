"""An argument is of the parameter's dtype, shape and device, whatever it comes in; and of the parameter that it names."""

import asyncio
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
import graphs
import numpy as np

import kiln
import kiln.aio
from kiln import arguments, encode
from kiln.v1 import graph_pb2, kernel_service_pb2


def doubled(shape=(2, 3), names=("x",)):
    graph = kiln.Graph()
    x = graph.param(names[0], shape)
    graph.output(x * 2.0)
    return graph


def difference(first, second):
    """Slot 0 minus slot 1, under these names."""
    graph = kiln.Graph()
    a, b = graph.param(first, (2,), slot=0), graph.param(second, (2,), slot=1)
    graph.output(a - b)
    return graph


class Arguments(support.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def refused(self, kind, code, attempt, *words):
        with self.assertRaises(kind) as caught:
            attempt()
        self.assertEqual(caught.exception.code, code, caught.exception)
        for word in words:
            self.assertIn(word, str(caught.exception))

    def test_a_buffer_of_another_shape_is_refused(self):
        program = self.client.compile(doubled())
        buffer = self.client.buffer(np.arange(6, dtype=np.float32).reshape(3, 2))
        for given in (buffer, kiln.At(buffer, 0), buffer.view((6,)), buffer.view((1, 2, 3))):
            for call in (lambda: program(given), lambda: program(x=given), lambda: program.run({0: given}),
                         lambda: program.run([given], out="buffers"), lambda: program(given, timeout=60)):  # fmt: skip
                self.refused(kiln.ShapeError, "BUFFER_SIZE_MISMATCH", call, "argument 0 (x)", "(2, 3)", "view")
        np.testing.assert_array_equal(program(buffer.view((2, 3))), 2 * np.arange(6.0).reshape(2, 3))
        self.client.fence()

    def test_so_is_one_of_another_dtype(self):
        program = self.client.compile(doubled())
        for dtype in ("int32", "uint8", "float64"):
            buffer = self.client.empty((2, 3), dtype)
            self.refused(kiln.DTypeError, "BUFFER_DTYPE_MISMATCH", lambda: program(buffer), "float32", dtype)
            self.refused(kiln.DTypeError, "BUFFER_DTYPE_MISMATCH", lambda: program(kiln.At(buffer, 0)), "float32")

    def test_so_is_one_of_another_device(self):
        program = self.client.compile(doubled())
        there = self.client.empty((2, 3), device="CPU:1")
        self.refused(kiln.InvalidArgument, "BUFFER_DEVICE_MISMATCH", lambda: program(there), "CPU:1", "CPU:0")
        self.client.fence()

    def test_from_a_byte_on_and_without_a_type_memory_is_what_the_parameter_is(self):
        program = self.client.compile(doubled())
        wide = self.client.buffer(np.arange(8, dtype=np.float32))
        self.assertEqual(program(kiln.At(wide, 8)).tolist(), [[4, 6, 8], [10, 12, 14]])
        raw = self.client.allocate(24).write_bytes(np.ones(6, np.float32))
        self.assertEqual(program(raw).tolist(), [[2] * 3] * 2)
        self.refused(kiln.OutOfRange, "OUT_OF_BOUNDS", lambda: program(kiln.At(wide, 33)))
        self.refused(kiln.OutOfRange, "OUT_OF_BOUNDS", lambda: program(kiln.At(wide, -4)))
        self.refused(kiln.DTypeError, "DTYPE_MISMATCH", lambda: program(kiln.At(wide, 4.0)))

    def test_where_sizes_come_with_the_call_the_others_are_checked(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 8)
        x = graph.param("x", (n, 3))
        graph.output(x.sum(axis=0))
        program = self.client.compile(graph)
        ones = self.client.buffer(np.ones((4, 3), np.float32))
        self.assertEqual(program(ones, n=4).tolist(), [4] * 3)
        for shape in ((3, 4), (12,), (4, 3, 1)):
            view = ones.view(shape)
            self.refused(kiln.ShapeError, "BUFFER_SIZE_MISMATCH", lambda: program(view, n=4), "(n, 3)", str(shape))
        # Which n it is, the server says.
        self.refused(kiln.InvalidArgument, "BUFFER_SIZE_MISMATCH", lambda: program(ones, n=2))

    def test_shards_too(self):
        devices = ("CPU:0", "CPU:1")
        graph = kiln.Graph()
        x = graph.param("x", (4, 2), devices=devices)
        graph.output(x + 1.0)
        program = self.client.compile(graph)
        array = np.zeros((4, 2), np.float32)
        good = self.client.shards(array, devices)
        self.assertEqual(program(good).tolist(), [[1, 1]] * 4)
        self.refused(kiln.ShapeError, "BUFFER_SIZE_MISMATCH", lambda: program(self.client.shards(array.reshape(2, 4), devices)))
        self.refused(kiln.DTypeError, "BUFFER_DTYPE_MISMATCH", lambda: program(self.client.shards(array.astype(np.int32), devices)))
        self.refused(kiln.InvalidArgument, "BUFFER_DEVICE_MISMATCH", lambda: program(self.client.shards(array, devices[::-1])))
        self.refused(kiln.InvalidArgument, "UNSUPPORTED_SHARD",
                     lambda: program(kiln.Shards([self.client.empty((4, 1), device=name) for name in devices], 1)))
        single = self.client.compile(doubled((4, 2)))
        self.refused(kiln.InvalidArgument, "BAD_ARGUMENT", lambda: single(good), "one device")
        self.refused(kiln.ShapeError, "SHAPE_MISMATCH", lambda: kiln.Shards([self.client.empty(2), self.client.empty(3)], 0))

    def test_in_a_collective_whole_tensors_have_one_shape(self):
        def on(device, *shape):
            return self.client.buffer(np.ones(shape, np.float32), device="CPU:%d" % device)

        a, b, client = on(0, 2, 3), on(1, 3, 2), self.client
        for attempt, field in ((lambda: client.all_reduce([a, b]), "input 1"),
                               (lambda: client.all_reduce([a, on(1, 2, 4)]), "input 1"),
                               (lambda: client.all_reduce([a, on(1, 2, 3)], [on(0, 6), on(1, 2, 3)]), "output 0"),
                               (lambda: client.broadcast(a, [a, b]), "output 1"),
                               (lambda: client.reduce([a, on(1, 2, 3)], on(0, 5)), "input 0"),
                               (lambda: client.scatter(a, [on(0, 3), on(1, 4)]), "output 1"),
                               (lambda: client.gather([on(0, 3), on(1, 4)], a), "input 1"),
                               (lambda: client.all_reduce([a, b], wait=False), "input 1")):  # fmt: skip
            with self.assertRaises(kiln.ShapeError) as caught:
                attempt()
            self.assertEqual((caught.exception.code, caught.exception.field), ("BUFFER_SIZE_MISMATCH", field))
        self.assertEqual(a.numpy().tolist(), [[1] * 3] * 2)
        client.all_reduce([a, b.view((2, 3))])
        self.assertEqual(b.numpy().tolist(), [[2] * 2] * 3)

    def test_awaited(self):
        async def main():
            async with await kiln.aio.connect(self.server.address) as client:
                program = await client.compile(doubled())
                for given in (await client.empty((3, 2)), await client.empty((2, 3), "int32"),
                              await client.empty((2, 3), device="CPU:1")):  # fmt: skip
                    with self.assertRaises(kiln.InvalidArgument):
                        await program(given)
                await client.fence()
                a, b = await client.empty((2, 3)), await client.empty((3, 2), device="CPU:1")
                with self.assertRaises(kiln.ShapeError):
                    await client.all_reduce([a, b])

        asyncio.run(main())

    def test_the_server_refuses_it_by_itself(self):
        program = self.client.compile(doubled())
        square = self.client.empty((3, 2))
        request = kernel_service_pb2.ExecuteRequest(graph_hash=program.hash).SerializeToString()
        with self.assertRaises(kiln.InvalidArgument) as caught:
            self.client._connection.send("KernelService.Execute", request + encode.handle_argument(0, square.handle))
        self.assertEqual((caught.exception.code, caught.exception.slot), ("BUFFER_SIZE_MISMATCH", 0))
        self.assertIn("[3, 2]", caught.exception.message)


class Names(support.ServerTest):
    """The hash knows no names, so a program may have been compiled before, under other ones."""

    def test_a_name_is_that_of_the_graph_that_was_compiled(self):
        a, b = np.float32([10, 20]), np.float32([1, 2])
        first, second = (self.client.compile(difference(*names)) for names in (("a", "b"), ("b", "a")))
        self.assertEqual(first.hash, second.hash)
        self.assertEqual(first(a=a, b=b).tolist(), [9, 18])
        self.assertEqual(second(a=a, b=b).tolist(), [-9, -18])
        self.assertEqual([row.name for row in second.signature.parameters], ["b", "a"])

    def test_a_builder_takes_each_name_once(self):
        graph = kiln.Graph()
        x = graph.param("x", (2,))
        graph.variable("n", 1, 4)
        for attempt in (lambda: graph.param("x", (2,)), lambda: graph.param("n", ()), lambda: graph.variable("x", 1, 2),
                        lambda: graph.variable("n", 1, 4), lambda: graph.param("y", (2,), slot=0)):  # fmt: skip
            with self.assertRaises(kiln.GraphError) as caught:
                attempt()
            self.assertIn("slot", str(caught.exception))
        self.assertEqual(graph.param("x", (2,), slot=0).node, x.node)
        graph.output(x + graph.param("y", (2,)))  # nothing was left behind by what was refused
        self.assertEqual(self.client.compile(graph)(x=np.ones(2, "f"), y=np.ones(2, "f")).tolist(), [2, 2])

    def test_a_message_may_have_one_twice_and_then_slots_tell_them_apart(self):
        graph = graphs.elementwise("SUB")
        for node in graph.nodes:
            if node.op == graph_pb2.PARAM:
                node.buffer.name = "x"
        program = self.client.compile(graph)
        ones = np.ones(4, np.float32)
        with self.assertRaises(kiln.InvalidArgument) as caught:
            program(x=ones)
        self.assertIn("'x'", str(caught.exception))
        self.assertEqual(program.run({0: 3 * ones, 1: ones}).results[0].tolist(), [2] * 4)
        with self.assertRaises(kiln.GraphError) as caught:
            self.client.compile(graph, constants=["x"])
        self.assertIn("slots 0 and 1", str(caught.exception))
        self.assertEqual(arguments.names_of(graph), {0: "x", 1: "x"})


if __name__ == "__main__":
    unittest.main()
