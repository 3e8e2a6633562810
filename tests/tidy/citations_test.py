"""Where code cites a page, the page is there, and has the section that is named.

A citation is a file's name that ends in .md, in any file that git tracks: from the root
of the tree, or from where the citing file lies. `docs/ir.md, "Scalars"` names a heading.
"""

import re
import unittest

import tidy_test as tidy

# Reports that a run writes, and another project's page.
ELSEWHERE = ("gpu-report.md", "gpu-table.md", "doc/PERFORMANCE.md")

PAGE = re.compile(r"(?<![\w/.:@-])(?<!/ \")((?:\.\./)*(?:[\w-]+/)*[\w-]+\.md)\b(?:`?, \"([^\"]+)\")?")
HEADING = re.compile(r"^#+ (.+)$", re.M)


def citations():
    for name in tidy.FILES:
        body = tidy.text(name)
        if body is None:
            continue
        # A citation may run on in the next line of a comment.
        joined = re.sub(r"\n\s*(?://|#)? ?", " ", body)
        for page, section in PAGE.findall(joined):
            if not page.endswith(ELSEWHERE):
                yield name, page, section


class Citations(unittest.TestCase):
    def test_pages_are_there(self):
        known = set(tidy.FILES)
        for name, page, section in citations():
            folder = (tidy.ROOT / name).parent
            places = [path for path in (tidy.ROOT / page, folder / page) if path.is_file()]
            with self.subTest(file=name, page=page):
                self.assertTrue(places, "%s cites %s, which is not in the tree; cite docs/… or write it" % (name, page))
                inside = [str(path.resolve().relative_to(tidy.ROOT)) for path in places]
                self.assertTrue(known.intersection(inside), "%s is not tracked" % page)
                if section:
                    self.assertIn(section, HEADING.findall(places[0].read_text()), "%s has no such section" % page)

    def test_there_are_some(self):
        """Else the pattern above finds nothing."""
        found = list(citations())
        self.assertGreater(len(found), 60)
        self.assertGreater(sum(bool(section) for _, _, section in found), 5)


if __name__ == "__main__":
    unittest.main()
