"""The snippets of docs/jax.md run, one after the other, and print what the page says."""

import unittest

from support_jax import jax, support

import snippets


@unittest.skipIf(jax is None, "jax 0.9 wants Python 3.11")
class Docs(unittest.TestCase):
    def test_every_snippet(self):
        snippets.check(self, support.ROOT / "docs" / "jax.md", at_least=6)


if __name__ == "__main__":
    unittest.main()
