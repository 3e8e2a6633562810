"""Every row of server/metrics/metrics.def is counted somewhere, and docs/metrics.md and the alerts name what there is."""

import re
import unittest

import tidy_test as tidy

TABLE = "server/metrics/metrics.def"
PAGE = "docs/metrics.md"
ALERTS = "deploy/prometheus/alerts.yml"
ROW = re.compile(r'^(COUNTER|HISTOGRAM|READ)\((\w+), \w+,\s*"(\w+)",\s*"[^"]*"([^)]*)\)$', re.M)
NAME = re.compile(r"\b(?:kiln|grpc|nv|process)_[a-z_]+\b")


def labels():
    """C++ type -> the label's name."""
    text = tidy.text("server/metrics/labels.h")
    found = dict(re.findall(r'^KILN_(?:CLOSED|OPEN)_LABEL\((\w+), "(\w+)"', text, re.M))
    found.update(re.findall(r'LabelOf<(\w+)> \{\n  static constexpr const char\* kName = "(\w+)"', text))
    return found


def rows():
    """(kind, member, name, names of labels) of every row."""
    names = labels()
    return [(kind, member, name, [names[each] for each in re.findall(r"\w+", rest)])
            for kind, member, name, rest in ROW.findall(tidy.text(TABLE))]  # fmt: skip


ROWS = rows()


def exists(name):
    metrics = {name: kind for kind, _, name, _ in ROWS}
    part = re.sub(r"_(bucket|sum|count)$", "", name)
    return name in metrics or metrics.get(part) == "HISTOGRAM"


class Metrics(unittest.TestCase):
    def test_the_table_is_read_whole(self):
        lines = re.findall(r"^(?:COUNTER|HISTOGRAM|READ)\(", tidy.text(TABLE), re.M)
        self.assertEqual(len(ROWS), len(lines))
        self.assertGreater(len(ROWS), 20)

    def test_every_row_is_counted(self):
        """What is looked up, the C++ compiler asks for: ReadMember of server/admin/readings.cc."""
        sources = [name for name in tidy.sources(".cc", ".h") if name.startswith("server/") and not name.endswith("_test.cc")]
        code = "\n".join(tidy.text(name) for name in sources)
        for kind, member, name, _ in ROWS:
            if kind != "READ":
                with self.subTest(name):
                    used = re.search(r"\bmetrics(?:_|\(\))?(?:\.|->)%s\.(?:Add|Observe)" % member, code)
                    self.assertTrue(used, "%s: nothing counts %s; count it, or delete the row" % (TABLE, member))

    def test_the_page_has_the_same_rows(self):
        listed = re.findall(r"^\| `([a-z_]+)` \| ((?:`\w+`(?:, )?)*) ?\|", tidy.text(PAGE), re.M)
        told = [(name, re.findall(r"\w+", names)) for name, names in listed]
        self.assertEqual(told, [(name, names) for _, _, name, names in ROWS], "%s: rows in the table's order" % PAGE)

    def test_queries_and_alerts_name_what_there_is(self):
        queries = " ".join(re.findall(r"`([^`\n]+)`", tidy.text(PAGE)))
        alerts = "\n".join(re.findall(r"^        expr: (.*)$", tidy.text(ALERTS), re.M))
        for text, least in ((queries, 30), (alerts, 8)):
            named = [name for name in NAME.findall(text) if not name.startswith(("grpc_method", "grpc_status"))]
            self.assertGreater(len(named), least)
            for name in named:
                with self.subTest(name):
                    self.assertTrue(exists(name), "there is no such metric")


if __name__ == "__main__":
    unittest.main()
