"""help() of every public name has an example that works, and of functions which shapes they take and what they raise."""

import contextlib
import doctest
import inspect
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "served")]

import support
import support_served
import numpy as np

import kiln
import kiln.aio
import kiln.help
import kiln.numpy as knp
import kiln.onnx
import kiln.served
import kiln.typing

os.environ.setdefault("JAX_PLATFORMS", "cpu")
with contextlib.suppress(ImportError):
    import kiln.jax

with contextlib.suppress(ImportError):
    import onnx

NAMESPACES = {"kiln": kiln, "kiln.numpy": knp, "kiln.numpy.linalg": knp.linalg, "kiln.numpy.random": knp.random,
              "kiln.aio": kiln.aio, "kiln.onnx": kiln.onnx, "kiln.served": kiln.served,
              "kiln.served.aio": kiln.served.aio}  # fmt: skip
if hasattr(kiln, "jax"):
    NAMESPACES["kiln.jax"] = kiln.jax
# What is neither called nor a class: numbers, texts, tables and modules.
DATA = (int, float, str, dict, type(None), type(kiln))


def public():
    for where, namespace in NAMESPACES.items():
        for name in namespace.__all__:
            one = getattr(namespace, name)
            if not isinstance(one, DATA):
                yield "%s.%s" % (where, name), one


def save_relu(path):
    """A model of rows of two numbers, for the examples of kiln.onnx."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", 2]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "model", [x], [y])
    opset = onnx.helper.make_opsetid("", 17)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=8), path)


class Help(support_served.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def test_every_public_name_has_an_example(self):
        count = 0
        for name, one in public():
            with self.subTest(name):
                self.assertIn("\n    >>> ", one.__doc__ or "", "kiln/help/ has no row for it")
                count += 1
        self.assertGreater(count, 300)

    def test_functions_say_their_shapes_and_failures(self):
        for name, one in public():
            if inspect.isfunction(one) and not name.endswith((".connect", ".local", ".current")):
                with self.subTest(name):
                    self.assertRegex(one.__doc__, r"(?m)^Shapes: .")
                    self.assertRegex(one.__doc__, r"(?m)^Raises: .")

    def test_names_for_annotations_say_what_they_are(self):
        said = {line.split()[0] for line in kiln.typing.__doc__.splitlines() if line.startswith("    ") and "(" not in line}
        self.assertEqual(said, set(kiln.typing.__all__))

    def test_every_row_is_of_a_public_name(self):
        names = {name.split(".", 1)[1].replace("numpy.", "") for name, _ in public()}
        names |= {name.split(".")[-1] for name in names}
        left = set(kiln.help.ROWS) - names
        self.assertEqual(left - ({"jax.jit", "jax.pmap"} if "kiln.jax" not in NAMESPACES else set()), set())

    def test_every_example_works(self):
        parser = doctest.DocTestParser()
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        programs = {"KILN_KILND": str(support.KILND), "KILN_CLI": str(support.CLI)}
        known = {"jax.": "kiln.jax" in NAMESPACES, "onnx.": "onnx" in globals()}
        absent = tuple(name for name, is_known in known.items() if not is_known)
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, programs):
            if "onnx." not in absent:
                save_relu(folder + "/model.onnx")
            for name, row in kiln.help.ROWS.items():
                if name.startswith(absent):
                    continue
                names = {
                    "kiln": kiln,
                    "knp": knp,
                    "np": np,
                    "client": self.client,
                    "address": self.server.address,
                    "folder": folder,
                }
                said = []
                with self.subTest(name):
                    runner.run(parser.get_doctest(row.example + "\n", names, name, None, 0), out=said.append)
                    self.assertEqual("".join(said), "")


if __name__ == "__main__":
    unittest.main()
