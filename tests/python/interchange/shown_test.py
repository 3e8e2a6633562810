"""An array in a notebook: short, escaped, and read no further than it is shown."""

import html.parser
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support
import numpy as np

import kiln
from kiln.interchange.shown import shown


class Page(html.parser.HTMLParser):
    """The cells of its table by row, and all its text; every tag is closed."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.words, self.open = [], "", []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data
        if self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


class Shown(support.ServerTest):
    def test_what_it_is_and_its_values(self):
        for one in (
            kiln.array(np.float32([[1, 2.5], [-3, 1e-7]])),
            self.client.buffer(np.float32([[1, 2.5], [-3, 1e-7]])),
        ):
            page = Page(one._repr_html_())
            self.assertIn("%s float32 (2, 2) on CPU:0" % type(one).__name__, page.words)
            self.assertEqual(page.rows, [["0", "1", "2.5"], ["1", "-3", "1e-07"]])
        self.assertEqual(Page(kiln.array(7)._repr_html_()).rows, [["7"]])
        self.assertEqual(Page(kiln.array([True, False])._repr_html_()).rows, [["True", "False"]])
        self.assertEqual(Page(kiln.array(1.5).astype("bfloat16")._repr_html_()).rows, [["1.5"]])
        self.assertEqual(Page(kiln.array(np.arange(8).reshape(2, 2, 2))._repr_html_()).rows,
                         [["0, 0", "0", "1"], ["0, 1", "2", "3"], ["1, 0", "4", "5"], ["1, 1", "6", "7"]])  # fmt: skip
        self.assertIn("no elements", Page(kiln.zeros((0, 3))._repr_html_()).words)

    def test_a_large_one_is_cut_and_not_read(self):
        large = kiln.array(np.arange(3000 * 1000).reshape(3000, 1000))
        self.client.fence()
        with mock.patch.object(kiln.Buffer, "numpy", side_effect=AssertionError("it is read whole")):
            text = large._repr_html_()
        self.assertLess(len(text), 3000)
        rows = Page(text).rows
        self.assertEqual([row[0] for row in rows], ["0", "1", "2", "…", "2997", "2998", "2999"])
        self.assertEqual(rows[1], ["1", "1000", "1001", "1002", "…", "1997", "1998", "1999"])
        self.assertEqual(rows[-1][-1], "2999999")
        self.assertEqual(len(Page(kiln.array(np.arange(10**6))._repr_html_()).rows[0]), 7)

    def test_it_never_raises(self):
        x = kiln.array([1.0])
        kiln.jit(lambda x: x + 1, donate_argnums=0)(x)
        self.assertIn("donated", Page(x._repr_html_()).words)
        buffer = self.client.buffer([1.0])
        buffer.free()
        self.assertIn("freed", Page(buffer._repr_html_()).words)

    def test_text_is_escaped(self):
        def read(start, count):
            raise kiln.KilnError("<script>&")

        page = Page(shown("Array", "<i>", (1,), "<b>", read))
        self.assertIn("<i> (1,) on <b>", page.words)
        self.assertIn("<script>&", page.words)


if __name__ == "__main__":
    unittest.main()
