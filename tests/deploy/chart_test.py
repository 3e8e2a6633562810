"""The Helm chart, as far as can be seen without helm; `./dev helm` renders it (tests/deploy/chart.py)."""

import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import support

CHART = support.ROOT / "deploy" / "helm" / "kiln"
TEMPLATES = {path.name: path.read_text() for path in (CHART / "templates").iterdir()}
VALUES = (CHART / "values.yaml").read_text()


def names(schema, path=()):
    """Paths of all values that a schema knows by name."""
    for name, part in schema.get("properties", {}).items():
        yield (*path, name)
        yield from names(part, (*path, name))


class Chart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.schema = json.loads((CHART / "values.schema.json").read_text())

    def test_it_is_of_this_server(self):
        said = subprocess.run([str(support.KILND), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        wanted = 'appVersion: "%s"' % said.strip().rpartition("-")[2]
        self.assertIn(wanted, (CHART / "Chart.yaml").read_text())

    def test_what_is_misspelled_is_refused(self):
        objects = [self.schema, *self.schema["properties"].values()]
        closed = [part for part in objects if "properties" in part]
        self.assertGreater(len(closed), 10)
        for part in closed:
            self.assertIs(part["additionalProperties"], False)

    def test_the_schema_knows_what_templates_use(self):
        known = {".".join(path) for path in names(self.schema)}
        used = {name.rstrip(".") for text in TEMPLATES.values() for name in re.findall(r"\.Values\.([\w.]+)", text)}
        self.assertGreater(len(used), 40)
        open_ones = {"resources.requests", "resources.limits"}
        self.assertLessEqual(used - open_ones, known)

    def test_values_and_schema_have_the_same_names(self):
        top = set(re.findall(r"^(\w+):", VALUES, re.M))
        self.assertEqual(top, set(self.schema["properties"]) - {"global"})  # Helm's own

    def test_settings_of_the_chart_itself_are_not_given_twice(self):
        taken = self.schema["properties"]["settings"]["propertyNames"]["not"]["enum"]
        rows = re.findall(r'^      \{"([\w.]+)",', (support.ROOT / "server" / "config_rows.cc").read_text(), re.M)
        self.assertLessEqual(set(taken), {row.replace(".", "_") for row in rows})
        settings = TEMPLATES["config.yaml"].partition('define "kiln.settings"')[2].partition("apiVersion")[0]
        written = set(re.findall(r"^(\w+)(?::| \{)", settings, re.M))
        written |= {name.lower() for name in re.findall(r"KILN_([A-Z_]+)", TEMPLATES["statefulset.yaml"])}
        self.assertEqual(written - {"program_cache_dir", "program_cache_disk_bytes", "gpus", "tls"}, set(taken) - {"tls_certificate", "tls_key"})

    def test_it_scales_on_a_metric_that_there_is(self):
        metrics = (support.ROOT / "server" / "metrics" / "metrics.def").read_text()
        (name,) = re.findall(r"metric: \{name: (\w+)\}", TEMPLATES["policies.yaml"])
        self.assertIn('"%s"' % name, metrics)

    def test_its_rules_are_prometheus_s(self):
        rules = (support.ROOT / "deploy" / "prometheus" / "alerts.yml").read_text()
        self.assertEqual((CHART / "files" / "alerts.yml").read_text(), rules, "copy deploy/prometheus/alerts.yml there")


if __name__ == "__main__":
    unittest.main()
