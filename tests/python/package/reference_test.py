"""The reference has every public name, with what its docstring says, and is Markdown."""

import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support  # noqa: F401: finds the package

import kiln
import kiln.aio
import reference


class Reference(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = reference.pages()

    def test_every_public_name_has_its_entry_once(self):
        for page, module, some in (("kiln", kiln, ("connect", "jit", "matmul", "NoServer", "float32", "Buffer")),
                                   ("kiln.aio", kiln.aio, ("connect", "Client", "Buffer", "Program"))):  # fmt: skip
            entries = re.findall(r"^### `%s\.(\w+)" % page.replace(".", r"\."), self.pages[page], re.M)
            self.assertEqual(sorted(entries), reference.public(module))
            self.assertLessEqual(set(some), set(entries))

    def test_what_it_says(self):
        page = self.pages["kiln"]
        for said in ("### `kiln.matmul(a, b)`\n\nThe matrix product of the last two axes", "### `kiln.NoServer`: Unavailable\n",
                     "\n- `fill(value, start=0, count=None)`: Sets `count` elements", "### `kiln.Buffer`\n",
                     "\n## kiln.reduce\n", "### `kiln.float32`\n"):  # fmt: skip
            self.assertIn(said, page)
        self.assertIn("- [kiln.numpy](kiln.numpy%s): kiln.numpy: numpy" % reference.SUFFIX, self.pages["index"])
        self.assertNotRegex(page, r"\n- `_")
        self.assertNotIn("Return number of occurrences", page)  # of tuples

    def test_markdown_of_its_own_is_code_or_escaped(self):
        def example():
            """`a*b` is a*b, and x < y."""

        self.assertEqual(reference.text(example), r"`a*b` is a\*b, and x \< y.")


if __name__ == "__main__":
    unittest.main()
