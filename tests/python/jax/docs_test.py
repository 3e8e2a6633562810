"""The snippets of docs/jax.md run, one after the other, and print what the page says."""

import re
import unittest

from support_jax import jax, support

import snippets


@unittest.skipIf(jax is None, "jax 0.9 and 0.10 want Python 3.11")
class Docs(unittest.TestCase):
    def test_every_snippet(self):
        snippets.check(self, support.ROOT / "docs" / "jax.md", at_least=6)

    def test_the_package_asks_for_the_versions_that_the_page_names(self):
        page = (support.ROOT / "docs" / "jax.md").read_text()
        least, most = re.search(r"It needs jax 0\.(\d+) or 0\.(\d+) ", page).groups()
        project = (support.PACKAGE / "pyproject.toml").read_text()
        self.assertIn('"jax>=0.%s,<0.%d;' % (least, int(most) + 1), project)
        tried = re.search(r"run with 0\.%s\.\d+, and all of .* passed with 0\.%s\.\d+" % (least, most), page)
        for version in re.findall(r"0\.\d+\.\d+", tried.group()):
            self.assertIn(version, project)
            self.assertIn(tuple(map(int, version.split(".")))[:2], ((0, int(least)), (0, int(most))))


if __name__ == "__main__":
    unittest.main()
