"""Programs are pickled as graphs, arrays where that is asked for; what is loaded is the current client's."""

import pathlib
import pickle
import subprocess
import sys
import threading
import unittest
from typing import Any, NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln


class Model(NamedTuple):
    weights: Any
    name: str


@kiln.jit
def doubled(x):
    return x * 2


def tripled(x, times):
    return x * 3 * times


def loaded(one, protocol=pickle.HIGHEST_PROTOCOL):
    with kiln.by_value():
        return pickle.loads(pickle.dumps(one, protocol))


class Programs(support.ServerTest):
    def test_a_program_is_its_graph(self):
        graph = kiln.Graph()
        n = graph.variable("n", 1, 8)
        x, w = graph.param("x", (n, 2)), graph.param("w", (2, 2))
        graph.output(x @ w)
        program = self.client.compile(graph, constants=["w"], no_contraction=True)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            other = pickle.loads(pickle.dumps(program, protocol))
            self.assertIsNot(other, program)
            self.assertEqual((other.hash, other.graph, other.options), (program.hash, program.graph, program.options))
            self.assertTrue(other.from_cache)
            np.testing.assert_array_equal(
                other(x=np.ones((3, 2), "f"), w=np.eye(2, dtype="f") * 2, n=3), np.full((3, 2), 2)
            )

    def test_jitted_functions(self):
        self.assertIs(pickle.loads(pickle.dumps(doubled)), doubled)
        other = pickle.loads(pickle.dumps(kiln.jit(tripled, static_argnames="times")))
        self.assertEqual(other(np.array([1.0, 2.0]), times=2).tolist(), [6, 12])
        self.assertIn("jit of tripled, traced 1 times", repr(other))
        with self.assertRaises((pickle.PicklingError, AttributeError)):
            pickle.dumps(kiln.jit(lambda x: x))
        with self.assertRaisesRegex(TypeError, "Client belongs to the process"):
            pickle.dumps(kiln.jit(tripled, client=self.client))

    def test_in_another_process_and_on_its_client(self):
        graph = kiln.Graph()
        graph.output(graph.param("x", (2,)) + 1.0)
        code = (
            "import pickle, sys, numpy as np\n"
            "sys.path.insert(0, %r)\n"
            "import kiln\n"
            "data = sys.stdin.buffer.read()\n"
            "try:\n"
            "    pickle.loads(data)\n"
            "except kiln.FailedPrecondition as error:\n"
            "    print('kiln.connect' in str(error))\n"
            "with kiln.connect(%r):\n"
            "    print(pickle.loads(data)(np.float32([1, 2])).tolist())\n"
        ) % (str(support.PACKAGE), self.server.address)
        ran = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(self.client.compile(graph)),
                             stdout=subprocess.PIPE, timeout=300, check=True)  # fmt: skip
        self.assertEqual(ran.stdout.decode().split("\n"), ["True", "[2.0, 3.0]", ""])

    def test_a_graph_is_pickled_as_well(self):
        graph = kiln.Graph()
        graph.output(graph.param("x", (2,)) * 3.0)
        other = pickle.loads(pickle.dumps(graph))
        self.assertEqual(kiln.graph_hash(other.build()), kiln.graph_hash(graph.build()))


class ByValue(support.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def test_arrays_and_buffers_of_every_dtype(self):
        for kind in ("bool", "int8", "uint64", "float16", "bfloat16", "float8_e5m2", "float64"):
            for shape in ((2, 3), (), (0,)):
                value = np.ones(shape, kiln.dtype(kind).numpy)
                for one in (kiln.array(value), self.client.buffer(value)):
                    with self.subTest(kind=kind, shape=shape, type=type(one).__name__):
                        other = loaded(one)
                        self.assertEqual((type(other), other.dtype, other.shape), (type(one), one.dtype, shape))
                        np.testing.assert_array_equal(other.numpy(), value)

    def test_within_others_and_to_the_current_client(self):
        x = kiln.array([1.0, 2.0])
        model = Model({"w": [x, x[1:]], "none": None}, "two")
        with kiln.connect(self.server.address, device="CPU:1") as other:
            found = loaded(model)
            self.assertEqual((found.name, found.weights["none"]), ("two", None))
            self.assertEqual([one.tolist() for one in found.weights["w"]], [[1, 2], [2]])
            self.assertTrue(all(one.client is other and one.device == "CPU:1" for one in found.weights["w"]))

    def test_states(self):
        state = kiln.State({"w": np.arange(3.0), "n": 1})
        found = loaded(state)
        self.assertEqual((found.value["w"].tolist(), int(found.value["n"])), ([0, 1, 2], 1))
        found.value = {"w": np.zeros(3), "n": 2}
        self.assertEqual(int(state.value["n"]), 1)

    def test_only_where_it_is_asked_for(self):
        x = kiln.array([1.0])
        failures = []

        def elsewhere():
            try:
                pickle.dumps(x)
            except TypeError as error:
                failures.append(str(error))

        with kiln.by_value():
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            for one in (self.client, kiln.Shards([x.buffer], 0), self.client._connection):
                with self.assertRaisesRegex(TypeError, "belongs to the process that made it"):
                    pickle.dumps(one)
        elsewhere()
        self.assertEqual(len(failures), 2)
        self.assertIn("an Array belongs to the process that made it: pickle its numpy(), or by value, in `with kiln.by_",
                      failures[0])  # fmt: skip

    def test_what_is_gone_says_so(self):
        x = kiln.array([1.0])
        kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
        with kiln.by_value(), self.assertRaises(kiln.BufferFreed):
            pickle.dumps(x)


if __name__ == "__main__":
    unittest.main()
