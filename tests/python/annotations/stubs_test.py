"""The stubs say what the package has: made anew they are the same, and every public name is annotated."""

import inspect
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import stubs
import support

import kiln
import kiln.numpy


class Stubs(unittest.TestCase):
    def test_they_are_of_today(self):
        for path, text in stubs.stubs().items():
            with self.subTest(path.relative_to(support.ROOT)):
                self.assertTrue(path.is_file(), "python tests/python/annotations/stubs.py writes it")
                self.assertEqual(path.read_text(), text, "python tests/python/annotations/stubs.py writes it anew")

    def test_every_public_function_is_annotated(self):
        for module in (kiln, kiln.numpy, kiln.numpy.linalg, kiln.numpy.random):
            for name in module.__all__:
                function = getattr(module, name)
                if inspect.isfunction(function):
                    signature = inspect.signature(function)
                    with self.subTest("%s.%s" % (module.__name__, name)):
                        self.assertIsNot(signature.return_annotation, signature.empty)
                        bare = [row.name for row in signature.parameters.values() if row.annotation is row.empty]
                        self.assertEqual(bare, [])

    def test_dir_has_no_module_of_ours(self):
        for module, meant in (
            (kiln, {"aio", "jax", "numpy", "onnx", "served", "tinygrad", "typing"}),
            (kiln.numpy, {"linalg", "random"}),
            (kiln.numpy.linalg, set()),
            (kiln.numpy.random, set()),
        ):
            found = {name for name in dir(module) if inspect.ismodule(getattr(module, name))}
            self.assertLessEqual(found, meant)
            self.assertLessEqual(set(module.__all__), set(dir(module)))
            self.assertEqual([name for name in dir(module) if name[0] == "_" and not name.startswith("__")], [])
        self.assertIn("numpy", dir(kiln))
        names = {}
        exec("from kiln import *", names)
        self.assertLessEqual(set(kiln.__all__), set(names))

    def test_the_package_says_that_it_is_typed(self):
        self.assertTrue((support.PACKAGE / "kiln" / "py.typed").is_file())


if __name__ == "__main__":
    unittest.main()
