"""The reference has every public name, with what its docstring says, and is Markdown."""

import importlib
import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: F401: finds the package

import reference

os.environ.setdefault("JAX_PLATFORMS", "cpu")


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = reference.pages()

    def test_every_public_name_has_its_entry_once(self):
        for page, some in (("kiln", "connect jit matmul NoServer float32 Buffer"),
                           ("kiln.aio", "connect Client Buffer Program"), ("kiln.onnx", "load Model Tensor"),
                           ("kiln.typing", "ArrayLike Axis"), ("kiln.jax", "jit pmap")):  # fmt: skip
            if page == "kiln.jax" and page not in self.pages:
                continue  # there is no jax
            entries = re.findall(r"^### `%s\.(\w+)" % page.replace(".", r"\."), self.pages[page], re.M)
            self.assertEqual(sorted(entries), reference.public(importlib.import_module(page)))
            self.assertLessEqual(set(some.split()), set(entries))

    def test_every_method_has_words(self):
        bare = {(name, line) for name, page in self.pages.items() for line in page.splitlines()
                if line.startswith("- `") and not re.search("`: .", line)}  # fmt: skip
        self.assertEqual(bare, set())
        self.assertIn("\n- `free()`: Gives the handle back now", self.pages["kiln.aio"])
        self.assertIn("\n- `ndim`: Axes.\n", self.pages["kiln"])

    def test_what_it_says(self):
        page = self.pages["kiln"]
        for said in ("### `kiln.matmul(a, b)`\n\nThe matrix product of the last two axes", "### `kiln.NoServer`: Unavailable\n",
                     "\n- `fill(value, start=0, count=None)`: Sets `count` elements", "### `kiln.Buffer`\n",
                     "\n## kiln.reduce\n", "### `kiln.float32`\n"):  # fmt: skip
            self.assertIn(said, page)
        for said in ("\n    Axis       one axis or several", "### `kiln.typing.Axis`\n\n`"):
            self.assertIn(said, self.pages["kiln.typing"])
        self.assertIn("- [kiln.numpy](kiln.numpy%s): kiln.numpy: numpy" % reference.SUFFIX, self.pages["index"])
        self.assertNotRegex(page, r"\n- `_")
        self.assertNotIn("Return number of occurrences", page)  # of tuples

    def test_markdown_of_its_own_is_code_or_escaped(self):
        def example():
            """`a*b` is a*b, and x < y."""

        self.assertEqual(reference.text(example), r"`a*b` is a\*b, and x \< y.")


if __name__ == "__main__":
    unittest.main()
