"""Models as graphs, made by the command line and by Python without any ONNX, asked by Triton's client: what they answer,
how they come beside what serves, and what hostile files are answered."""

import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import unittest

import numpy as np
import serving_models as models
import serving_test
import support
from serving_test import given

import kiln
from kiln.v1 import graph_pb2

MLP = models.Mlp()
PAGE = support.ROOT / "models" / "kgraph" / "README.md"


class GraphModels(serving_test.ServingTest):
    FLAGS = ("--model_sizes=batch=1:64",)

    @classmethod
    def fill(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        cls.folder.put("onnx", MLP.file())
        (cls.scratch / "model.onnx").write_bytes(MLP.file())
        (cls.scratch / "models").symlink_to(cls.folder.path)
        before = os.getcwd()
        os.chdir(cls.scratch)
        try:
            cls.names = cls.page()
        finally:
            os.chdir(before)

    @classmethod
    def page(cls):
        """What models/kgraph/README.md shows, run in the folder that it is about; the names that it leaves."""
        blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(), re.S | re.M))
        names = {}
        exec(compile(blocks["python"], str(PAGE), "exec"), names)
        for line in blocks["sh"].splitlines():
            word, *words = line.split()
            if word == "mkdir":
                os.makedirs(words[-1])
            else:
                assert word == "kiln", line
                support.cli(*words)
        return names

    def changed(self, name, change=None, version=1, graph=None):
        """The page's model under another name: `change` takes its signature, `graph` its message."""
        source = self.folder.path / "classes" / "1"
        header, data = read(source / "model.safetensors")
        signature = json.loads(header["__metadata__"]["kiln.signature"])
        message = graph_pb2.Graph.FromString((source / "model.kgraph").read_bytes())
        if graph:
            graph(message)
            del signature["graph"]
        if change:
            change(signature)
        header["__metadata__"]["kiln.signature"] = json.dumps(signature)
        draft = self.folder.path / ".draft"
        draft.mkdir()
        (draft / "model.kgraph").write_bytes(message.SerializeToString())
        write(draft / "model.safetensors", header, data)
        (self.folder.path / name).mkdir(exist_ok=True)
        os.rename(draft, self.folder.path / name / str(version))

    def test_what_onnx_and_its_graph_answer_is_equal_bit_for_bit(self):
        draw = np.random.default_rng(3)
        for batch in (1, 5, 64):
            x = draw.standard_normal((batch, 16)).astype(np.float32)
            answers = [self.infer(name, given("x", x)).as_numpy("y") for name in ("onnx", "graph")]
            self.assertEqual(answers[0].tobytes(), answers[1].tobytes())
            np.testing.assert_allclose(answers[1], MLP(x), rtol=1e-4, atol=1e-4)
        told = [self.client.get_model_metadata(name) for name in ("onnx", "graph")]
        self.assertEqual(told[0].inputs, told[1].inputs)
        self.assertEqual(told[0].outputs, told[1].outputs)

    def test_a_graph_that_python_built_is_served(self):
        self.assertEqual(self.index()["classes", "1"].state, "READY")
        told = self.client.get_model_metadata("classes")
        self.assertEqual([(row.name, row.datatype, list(row.shape)) for row in told.inputs], [("x", "FP32", [-1, 16])])
        self.assertEqual([(row.name, row.datatype, list(row.shape)) for row in told.outputs], [("y", "FP32", [-1, 4])])
        x = np.random.default_rng(4).standard_normal((7, 16)).astype(np.float32)
        scores = np.exp(x @ self.names["weights"])
        y = self.infer("classes", given("x", x)).as_numpy("y")
        np.testing.assert_allclose(y, scores / scores.sum(1, keepdims=True), rtol=1e-5)
        self.refused("INVALID_ARGUMENT", ['"x"', "1 to 64"], self.infer, "classes", given("x", np.zeros((65, 16), np.float32)))

    def test_a_function_that_was_jitted_is_a_model(self):
        def step(x, w):
            return kiln.relu(x @ w).sum(axis=1), x * 2

        graph = kiln.Graph()
        x = graph.param("x", (graph.variable("n", 1, 8), 16))
        total, double = step(x, graph.param("w", (16, 4)))
        m = graph.variable("m", 1, 8)  # which the graph itself does not read
        unread = graph.param("unread", (3, m), "int32")
        self.assertEqual(unread.shape, (3, m))
        kiln.save_model(self.folder.path / "jitted" / "1", {"total": total, "double": double},
                        constants={"w": self.names["weights"]})  # fmt: skip
        self.wait(lambda: self.client.is_model_ready("jitted"))
        values = np.random.default_rng(5).standard_normal((3, 16)).astype(np.float32)
        answer = self.infer("jitted", given("x", values), given("unread", np.zeros((3, 2), np.int32)))
        np.testing.assert_allclose(answer.as_numpy("total"), np.maximum(values @ self.names["weights"], 0).sum(1), rtol=1e-5)
        np.testing.assert_array_equal(answer.as_numpy("double"), 2 * values)

    def test_a_new_version_comes_beside_the_old_and_a_bad_one_leaves_it(self):
        self.changed("lives")
        self.wait(lambda: self.client.is_model_ready("lives"))
        x = np.ones((1, 16), np.float32)
        first = self.infer("lives", given("x", x)).as_numpy("y")
        self.changed("lives", lambda signature: signature["outputs"].clear(), version=2)
        self.wait(lambda: ("lives", "2") in self.index() and self.index()["lives", "2"].reason)
        self.assertIn("model.safetensors: there are 0 outputs; the graph has 1", self.index()["lives", "2"].reason)
        answer = self.infer("lives", given("x", x))
        self.assertEqual(answer.get_response().model_version, "1")
        np.testing.assert_array_equal(answer.as_numpy("y"), first)
        self.changed("lives", version=3)
        self.wait(lambda: self.client.is_model_ready("lives", "3"))
        np.testing.assert_array_equal(self.infer("lives", given("x", x)).as_numpy("y"), first)

    def test_files_that_are_hostile_are_named_with_the_reason(self):
        def of(name):
            return self.folder.path / name / "1"

        def code(message):
            message.nodes[0].op = graph_pb2.CUSTOM
            message.nodes[0].text = "system"

        def mixed(message):
            for uop in message.nodes:
                if uop.HasField("buffer") and uop.buffer.name == "x":
                    uop.buffer.dtype = kiln.int8.number

        self.changed("code", graph=code)
        self.changed("mixed", graph=mixed)
        self.changed("both")
        shutil.copy(self.scratch / "model.onnx", of("both"))
        self.changed("linked")
        os.replace(of("linked") / "model.safetensors", self.scratch / "away.safetensors")
        (of("linked") / "model.safetensors").symlink_to(self.scratch / "away.safetensors")
        self.changed("cut")
        whole = (of("cut") / "model.safetensors").read_bytes()
        (of("cut") / "model.safetensors").write_bytes(whole[:-1])
        self.changed("short")
        (of("short") / "model.kgraph").write_bytes((of("short") / "model.kgraph").read_bytes()[:-5])
        reasons = {
            "code": "model.kgraph: node 0 (CUSTOM) carries code",
            "mixed": "model.kgraph: ",
            "both": "model.kgraph: model.onnx lies beside it",
            "linked": "model.safetensors: no plain file",
            "cut": "ends after the file does",
            "short": "model.kgraph: no serialized kiln.v1.Graph",
        }
        for name, reason in reasons.items():
            with self.subTest(name):
                self.wait(lambda: (name, "1") in self.index() and reason in self.index()[name, "1"].reason)
                self.assertEqual(self.index()[name, "1"].state, "UNAVAILABLE")
                self.refused("NOT_FOUND", [name], self.infer, name, given("x", np.ones((1, 16), np.float32)))
        self.assertIsNone(self.server.process.poll())


class SaveModel(unittest.TestCase):
    """What kiln.save_model refuses, without a server; and that it leaves what was there."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name) / "m" / "1"
        self.graph = kiln.Graph()
        self.n = self.graph.variable("n", 1, 8)
        self.x = self.graph.param("x", (self.n, 2))
        self.w = self.graph.param("w", (2, 3))

    def refused(self, kind, words, outputs, constants={}):
        with self.assertRaisesRegex(kind, words):
            kiln.save_model(self.folder, outputs, constants=constants)
        self.assertFalse(self.folder.exists())

    def test_what_is_no_model_is_refused_and_nothing_is_written(self):
        y, w = self.x @ self.w, np.ones((2, 3), np.float32)
        self.refused(kiln.GraphError, "dict of a graph's tensors", {})
        self.refused(kiln.GraphError, "dict of a graph's tensors", {"y": w})
        self.refused(kiln.GraphError, "no tensor of this graph", {"y": y, "z": kiln.Graph().ones((2,))})
        self.refused(kiln.InvalidArgument, "no parameter 'v'", {"y": y}, {"v": w})
        self.refused(kiln.DTypeError, "w is float64, and the parameter float32", {"y": y}, {"w": w.astype(np.float64)})
        self.refused(kiln.ShapeError, r"w has shape \(3, 2\)", {"y": y}, {"w": w.T})
        self.refused(kiln.ShapeError, "x2 has size 2\\*n", {"y": self.graph.param("x2", (2 * self.n,)) + 1})
        self.refused(kiln.GraphError, "slot 9 has no name", {"y": self.graph.param("", (2,), slot=9) + 1})

    def test_a_size_must_be_in_an_inputs_shape(self):
        graph = kiln.Graph()
        rows = graph.dim(graph.variable("rows", 1, 8))
        self.refused(kiln.ShapeError, "no input's shape says what rows is", {"y": rows + graph.param("k", (), "int32")})

    def test_the_files_are_as_others_read_them(self):
        w = np.arange(6, dtype=np.float32).reshape(2, 3)
        kiln.save_model(self.folder, {"y": self.x @ self.w}, constants={"w": w})
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["model.kgraph", "model.safetensors"])
        header, data = read(self.folder / "model.safetensors")
        self.assertEqual(header["2_w"]["shape"], [2, 3])
        self.assertEqual(data, w.tobytes())
        message = graph_pb2.Graph.FromString((self.folder / "model.kgraph").read_bytes())
        self.assertEqual(json.loads(header["__metadata__"]["kiln.signature"]), {
            "graph": kiln.graph_hash(message).hex(),
            "inputs": [{"name": "x", "slot": 1, "dtype": "float32", "shape": ["n", 2], "used": True}],
            "sizes": [{"name": "n", "slot": 0, "min": 1, "max": 8}],
            "outputs": [{"name": "y", "dtype": "float32", "shape": ["n", 3]}],
        })  # fmt: skip

    def test_sizes_are_those_that_are_read_and_those_of_shapes(self):
        m, _ = self.graph.variable("m", 2, 3), self.graph.variable("nowhere", 1, 8)
        self.graph.param("unread", (m, 2))
        kiln.save_model(self.folder, {"y": self.x @ self.w}, constants={"w": np.ones((2, 3), np.float32)})
        header, _ = read(self.folder / "model.safetensors")
        told = json.loads(header["__metadata__"]["kiln.signature"])
        self.assertEqual([(row["name"], row["min"], row["max"]) for row in told["sizes"]], [("n", 1, 8), ("m", 2, 3)])
        self.assertEqual([(row["name"], row["shape"], row["used"]) for row in told["inputs"]],
                         [("x", ["n", 2], True), ("unread", ["m", 2], False)])  # fmt: skip


def read(path):
    """The header of a .safetensors, and its data."""
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    return json.loads(whole[8 : 8 + length]), whole[8 + length :]


def write(path, header, data):
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


if __name__ == "__main__":
    unittest.main()
