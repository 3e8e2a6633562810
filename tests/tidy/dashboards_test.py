"""The dashboards for Grafana are as their table has them, and each query names metrics and labels that there are."""

import importlib.util
import json
import pathlib
import re
import unittest

import metrics_test as metrics
import tidy_test as tidy

FOLDER = pathlib.Path(tidy.ROOT, "deploy", "grafana")
# A word of Prometheus' own before '(' is a function; labels stand in braces, and after by, ignoring and the like.
SELECTOR = re.compile(r"\b([a-z_]+)(\{[^}]*\})")
MATCHER = re.compile(r'(\w+)(?:=~|!~|!=|=)"')
GROUPS = re.compile(r"\b(?:by|without|ignoring|on) \(([^)]*)\)|\bignoring\((\w+)\)")
# What Prometheus itself adds.
ITS_OWN = {"instance", "job"}


def load():
    spec = importlib.util.spec_from_file_location("dashboards", FOLDER / "dashboards.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TABLE = load()


def queries(dashboard):
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]


def labels_of(name):
    part = re.sub(r"_(bucket|sum|count)$", "", name)
    for _, _, metric, labels in metrics.ROWS:
        if metric in (name, part):
            return ITS_OWN | set(labels) | ({"le"} if name.endswith("_bucket") else set())
    raise KeyError(name)


class Dashboards(unittest.TestCase):
    def test_files_are_as_the_table_has_them(self):
        names = sorted("kiln-%s.json" % name for name in TABLE.DASHBOARDS)
        for folder in TABLE.FOLDERS:
            self.assertEqual(sorted(path.name for path in folder.glob("*.json")), names)
            for name in TABLE.DASHBOARDS:
                with self.subTest(name, folder=folder):
                    self.assertEqual((folder / ("kiln-%s.json" % name)).read_text(), TABLE.text(name),
                                     "python deploy/grafana/dashboards.py writes it")  # fmt: skip

    def test_queries_name_what_there_is(self):
        asked = 0
        for name in TABLE.DASHBOARDS:
            for query in queries(TABLE.dashboard(name)):
                with self.subTest(query):
                    selected = SELECTOR.findall(query)
                    self.assertTrue(selected)
                    # Each metric is of the servers that are chosen.
                    self.assertEqual([metric for metric, _ in selected], [each for each in metrics.NAME.findall(query)
                                     if not each.startswith(("grpc_method", "grpc_status"))])  # fmt: skip
                    known = set()
                    for metric, matchers in selected:
                        self.assertTrue(metrics.exists(metric), metric)
                        self.assertIn(TABLE.SERVERS, matchers)
                        known |= labels_of(metric)
                        self.assertLessEqual(set(MATCHER.findall(matchers)), labels_of(metric))
                    for grouped in GROUPS.findall(query):
                        self.assertLessEqual(set(re.findall(r"\w+", " ".join(grouped))), known)
                    asked += 1
        self.assertGreater(asked, 40)

    def test_lines_are_called_by_labels_that_are_left(self):
        for name in TABLE.DASHBOARDS:
            for panel in TABLE.dashboard(name)["panels"]:
                for target in panel.get("targets", []):
                    grouped = re.match(r"\w+ by \(([^)]*)\)", target["expr"])
                    shown = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
                    if grouped:
                        self.assertLessEqual(shown, set(re.findall(r"\w+", grouped.group(1))), target["expr"])

    def test_every_metric_of_ours_is_looked_at_somewhere(self):
        asked = "\n".join(query for name in TABLE.DASHBOARDS for query in queries(TABLE.dashboard(name)))
        # Those of served models are in dashboards made for Triton.
        spared = {"kiln_otlp_records_total", "kiln_batch_rows"}
        for _, _, metric, _ in metrics.ROWS:
            if metric not in spared and metric.startswith(("kiln_", "grpc_")):
                self.assertIn(metric, asked)

    def test_panels_lie_beside_each_other(self):
        uids = set()
        for name in TABLE.DASHBOARDS:
            made = json.loads(TABLE.text(name))
            uids.add(made["uid"])
            self.assertEqual(len({panel["id"] for panel in made["panels"]}), len(made["panels"]))
            taken = set()
            for panel in made["panels"]:
                at = panel["gridPos"]
                cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
                self.assertFalse(cells & taken, panel["title"])
                self.assertLessEqual(at["x"] + at["w"], 24)
                taken |= cells
        self.assertEqual(len(uids), len(TABLE.DASHBOARDS))


if __name__ == "__main__":
    unittest.main()
