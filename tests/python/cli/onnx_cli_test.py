"""`kiln import` and `kiln run` of ONNX models: the values that numpy has, and mistakes that are named."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

# More elements than a graph has as its own.
WEIGHTS = np.arange(4 * 33, dtype=np.float32).reshape(4, 33) / 64 - 1
BIAS = np.linspace(-2, 2, 33, dtype=np.float32)


def layer(path):
    """relu(x @ w + b), of any batch, and the batch's rows added up."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["sum"]),
        helper.make_node("Relu", ["sum"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 33]),
         helper.make_tensor_value_info("total", TensorProto.FLOAT, [33])],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(BIAS, "b"),
         numpy_helper.from_array(np.array([0]), "axes")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def reshape(path):
    """x in the shape that another input says."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "shape"], ["y"])], "reshape",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6]),
         helper.make_tensor_value_info("shape", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


class OnnxCli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        layer(cls.folder / "layer.onnx")
        reshape(cls.folder / "reshape.onnx")
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)

    def path(self, name):
        return str(self.folder / name)

    def array(self, name, values):
        np.save(self.folder / name, values)
        return self.path(name)

    def run_model(self, *words):
        return support.cli("run", "--server", self.server.address, *words)

    def failure(self, *words):
        ran = subprocess.run([str(support.CLI), "--server", self.server.address, *words],
                             capture_output=True, text=True)  # fmt: skip
        self.assertEqual(ran.returncode, 1, ran.stdout)
        return ran.stderr

    def test_a_kgraph_has_its_constants_beside_it(self):
        model = self.path("layer.onnx")
        support.cli("import", model, "-o", self.path("same.pb"), "--constants", self.path("other.safetensors"))
        support.cli("import", model, "-o", self.path("same.kgraph"))
        for one, other in (("same.pb", "same.kgraph"), ("other.safetensors", "same.safetensors")):
            self.assertEqual((self.folder / one).read_bytes(), (self.folder / other).read_bytes())
        hashes = {support.cli("graph", "hash", self.path(name)) for name in ("same.pb", "same.kgraph")}
        self.assertEqual(len(hashes), 1)

    def test_a_model_runs_with_the_sizes_of_its_files(self):
        for batch in (1, 5):
            x = np.random.default_rng(batch).normal(size=(batch, 4)).astype(np.float32)
            said = self.run_model(self.path("layer.onnx"), "-i", "x=" + self.array("x.npy", x), "-o",
                                  self.path("y.npy"), "-o", self.path("total.npy"))  # fmt: skip
            wanted = np.maximum(x @ WEIGHTS + BIAS, 0)
            np.testing.assert_allclose(np.load(self.path("y.npy")), wanted, rtol=1e-6, atol=1e-6)
            np.testing.assert_allclose(np.load(self.path("total.npy")), wanted.sum(0), rtol=1e-5, atol=1e-6)
            self.assertIn("result 0 y", said)
            self.assertIn("float32 (%d, 33)" % batch, said)

    def test_a_shape_may_come_with_the_call(self):
        x = np.arange(6, dtype=np.float32)
        self.run_model(self.path("reshape.onnx"), "-i", "x=" + self.array("x6.npy", x), "-i",
                       "shape=" + self.array("shape.npy", np.array([3, -1])), "-o", self.path("r.npy"))  # fmt: skip
        np.testing.assert_array_equal(np.load(self.path("r.npy")), x.reshape(3, 2))

    def test_made_up_inputs_have_the_size_that_was_said(self):
        self.assertIn("float32 (7, 33)", self.run_model(self.path("layer.onnx"), "--size", "batch=7", "--random"))

    def test_import_says_what_is_in_it_and_writes_it(self):
        said = support.cli("import", self.path("layer.onnx"), "--size", "batch=1:64", "-o", self.path("layer.uop"),
                           "--constants", self.path("weights"))  # fmt: skip
        self.assertIn("float32 (batch, 4)", said)
        self.assertIn("1 to 64", said)
        self.assertIn("2 constants of 660 B", said)
        files = {path.name.split("_", 1)[1]: path for path in (self.folder / "weights").iterdir()}
        np.testing.assert_array_equal(np.load(files["w.npy"]), WEIGHTS)
        np.testing.assert_array_equal(np.load(files["b.npy"]), BIAS)
        support.cli("import", self.path("layer.onnx"), "--size", "batch=2", "-o", self.path("two.pb"))
        x = np.ones((2, 4), dtype=np.float32)
        self.run_model(self.path("two.pb"), "-i", "x=" + self.array("ones.npy", x), "-i", "w=%s" % files["w.npy"], "-i",
                       "b=%s" % files["b.npy"], "-o", self.path("by_hand.npy"))  # fmt: skip
        np.testing.assert_allclose(np.load(self.path("by_hand.npy")), np.maximum(x @ WEIGHTS + BIAS, 0), rtol=1e-6)

    def test_mistakes_are_named(self):
        model = self.path("layer.onnx")
        (self.folder / "cut.onnx").write_bytes((self.folder / "layer.onnx").read_bytes()[:-40])
        for words, wanted in (
            (("import", model, "--size", "batch"), "NAME=8 or NAME=1:64"),
            (("import", model, "--size", "batch=9:3"), "no range"),
            (("import", model, "--shape", "x=2,four"), "four"),
            (("import", model, "-o", self.path("layer.txt")), ".uop, .pb or .kgraph"),
            (("import", self.path("cut.onnx")), "ONNX"),
            (("import", self.path("nowhere.onnx")), "nowhere.onnx"),
            (("run", model, "--size", "batch=1:64", "--random"), "not a range"),
            (("run", model), "no value for x"),
            (("run", model, "-i", "x=" + self.array("wide.npy", np.ones((2, 5), np.float32))), "MatMul"),
            (("explain", model), "kiln import"),
        ):
            with self.subTest(words=words[:1] + words[2:]):
                self.assertIn(wanted, self.failure(*words))


if __name__ == "__main__":
    unittest.main()
