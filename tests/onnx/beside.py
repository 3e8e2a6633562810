"""Models of one node, by the importer and by onnxruntime."""

import os
import pathlib
import tempfile
import unittest

import cases
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNNER = pathlib.Path(os.environ.get("KILN_ONNX_RUNNER", ROOT / "bazel-bin" / "tests" / "onnx" / "onnx_runner"))
OPSETS = {"": 17, "com.microsoft": 1, "ai.onnx.ml": 3}


def model_of(op, inputs, outputs, domain, opsets, attributes):
    """One node of what `inputs` are, None where one is not there, and (array,) or (TensorProto,) where the file holds it."""
    names, given, held = [], [], []
    for i, value in enumerate(inputs):
        names.append("" if value is None else "x%d" % i)
        if isinstance(value, tuple):
            held.append(value[0] if isinstance(value[0], onnx.TensorProto) else numpy_helper.from_array(np.asarray(value[0])))
            held[-1].name = names[i]
        elif value is not None:
            kind = helper.np_dtype_to_tensor_dtype(value.dtype)
            given.append(helper.make_tensor_value_info(names[i], kind, value.shape))
    results = ["y%d" % i if wanted else "" for i, wanted in enumerate(outputs)]
    attributes = {name: value for name, value in attributes.items() if value is not None}
    node = helper.make_node(op, names, results, name="the " + op, domain=domain, **attributes)
    graph = helper.make_graph([node], "one", given, [onnx.ValueInfoProto(name=name) for name in results if name], held)
    imports = [helper.make_opsetid(*one) for one in {**OPSETS, **opsets}.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


class Beside(unittest.TestCase):
    domain = "com.microsoft"

    @classmethod
    def setUpClass(cls):
        if not RUNNER.exists():
            raise AssertionError("%s is not built: bazel build //tests/onnx:onnx_runner" % RUNNER)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder, cls.count = pathlib.Path(folder.name), 0
        cls.runner = cases.Runner(RUNNER, os.environ.get("KILN_ONNX_ENGINE", "cpu"))
        cls.addClassCleanup(cls.runner.close)

    def random(self, *shape, seed=0):
        return np.random.default_rng([seed, *shape]).standard_normal(shape, np.float32)

    def run_model(self, model, given, expected, atol=2e-5, step=0, offer=False):
        type(self).count += 1
        case = cases.Case("beside", model, [numpy_helper.from_array(value) for value in given], expected, 1e-5, atol)
        case.step = step
        return self.runner.run(case, self.folder / str(self.count), offer)

    def by_onnxruntime(self, op, inputs, outputs=(True,), opsets={}, **attributes):
        model = model_of(op, inputs, outputs, self.domain, opsets, attributes)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        given = [value for value in inputs if isinstance(value, np.ndarray)]
        return session.run(None, dict(zip([one.name for one in session.get_inputs()], given)))

    def check(self, op, inputs, outputs=(True,), atol=2e-5, step=0, expected=None, opsets={}, offer=False, **attributes):
        """Runs both, and compares; `expected` is there where onnxruntime has no such kernel for CPUs."""
        if expected is None:
            expected = self.by_onnxruntime(op, inputs, outputs, opsets, **attributes)
        # Else any zeros would do.
        self.assertGreater(max(np.abs(np.nan_to_num(value.astype(np.float64))).max() for value in expected), 10 * atol)
        model = model_of(op, inputs, outputs, self.domain, opsets, attributes)
        given = [value for value in inputs if isinstance(value, np.ndarray)]
        verdict, reason, _ = self.run_model(model, given, expected, atol, step, offer)
        self.assertEqual((verdict, reason), ("passed", ""), (op, attributes))
        return expected

    def refused(self, words, op, inputs, outputs=(True,), opsets={}, **attributes):
        """The model is not taken, and the reason has these words, the node's name and its op."""
        model = model_of(op, inputs, outputs, self.domain, opsets, attributes)
        given = [value for value in inputs if isinstance(value, np.ndarray)]
        verdict, reason, _ = self.run_model(model, given, [])
        self.assertEqual(verdict, "refused", reason)
        for word in (words, '"the %s" (%s.%s, opset ' % (op, self.domain, op) if self.domain else '"the %s" (%s, opset ' % (op, op)):
            self.assertIn(word, reason)

