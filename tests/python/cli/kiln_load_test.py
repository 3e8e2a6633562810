"""`kiln load` against a server: what it prints adds up, tenants are themselves, and mistakes are named."""

import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import support

ADD = """0 CONST [] weakint 64
1 PARAM : float32 [0] slot=0
2 CONST [] float32 1.0
3 ADD [1, 2]
4 TUPLE [3]
"""


class KilnLoad(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        tenants = ""
        for name, more in (("web", ""), ("poor", "quota { requests_per_second: 5 }")):
            (cls.folder / (name + ".token")).write_text("secret of " + name)
            digest = hashlib.sha256(("secret of " + name).encode()).hexdigest()
            tenants += 'tenant { name: "%s" token { sha256: "%s" } %s }\n' % (name, digest, more)
        (cls.folder / "tenants.txtpb").write_text(tenants)
        (cls.folder / "add.uop").write_text(ADD)
        (cls.folder / "fresh.uop").write_text(ADD.replace("64", "{n}"))
        cls.server = support.Server("--tenants=%s" % (cls.folder / "tenants.txtpb"))
        cls.addClassCleanup(cls.server.stop)

    def mix(self, text):
        path = self.folder / "day.load"
        path.write_text(text.replace("DIR", str(self.folder)))
        return str(path)

    def load(self, *words):
        return support.cli("load", "--server", self.server.address, "--warm-up", "0.2", *words)

    def failure(self, *words):
        ran = subprocess.run([str(support.CLI), "load", "--server", self.server.address, *words],
                             capture_output=True, text=True)  # fmt: skip
        self.assertEqual(ran.returncode, 1, ran.stdout)
        return ran.stderr

    def test_a_mix_of_tenants_and_kinds(self):
        mix = self.mix("""tenant web token_file=DIR/web.token connections=2
class add tenant=web graph=DIR/add.uop rate=200 arrivals=constant
class feed tenant=web kind=upload bytes=1500000 rate=10
class fresh tenant=web kind=compile graph=DIR/fresh.uop rate=5
""")
        plot = self.folder / "load.svg"
        report = json.loads(self.load("--mix", mix, "--seconds", "2", "--json", "--plot", str(plot)))
        (step,) = report["steps"]
        self.assertEqual((step["rate"], step["seconds"], step["seed"]), (215, 2, 1))
        by_name = {row["name"]: row for row in step["classes"]}
        self.assertEqual(list(by_name), ["add", "feed", "fresh"])
        for name, row in by_name.items():
            with self.subTest(name):
                self.assertEqual(row["failures"], {})
                self.assertEqual(row["ok"], row["due"])
                self.assertEqual(row["in_deadline"], row["ok"])
                times = row["answered_us"]
                self.assertEqual(times["count"], row["ok"])
                self.assertEqual(sum(count for _, count in times["buckets"]), row["ok"])
                self.assertLessEqual(0, times["p50"])
                self.assertLessEqual(times["p50"], times["p99"])
                self.assertLessEqual(times["p99"], times["max"])
        self.assertAlmostEqual(by_name["add"]["due"], 400, delta=1)
        self.assertIn("Latency by percentile", plot.read_text())

    def test_what_is_refused_is_counted_by_its_reason(self):
        """A quota of 5 a second, of which most is used up by making ready."""
        mix = self.mix("tenant poor token_file=DIR/poor.token\nclass add graph=DIR/add.uop rate=100 deadline=60s\n")
        report = json.loads(self.load("--mix", mix, "--seconds", "1", "--json"))
        (row,) = report["steps"][0]["classes"]
        refused = row["failures"]["RESOURCE_EXHAUSTED QUOTA_EXCEEDED"]
        self.assertIn("requests", refused["example"])
        self.assertGreater(refused["count"], 0)
        self.assertEqual(row["due"], row["ok"] + refused["count"])
        self.assertEqual(row["failed_us"]["count"], refused["count"])

    def test_rates_are_steps_and_the_same_seed_is_the_same_schedule(self):
        words = ("--tenant", "web token_file=%s" % (self.folder / "web.token"), str(self.folder / "add.uop"),
                 "--rates", "50,100", "--seconds", "1")  # fmt: skip
        steps = json.loads(self.load(*words, "--json"))["steps"]
        self.assertEqual([step["rate"] for step in steps], [50, 100])
        again = json.loads(self.load(*words, "--json"))["steps"]
        due = [[row["due"] for row in step["classes"]] for step in steps]
        self.assertEqual(due, [[row["due"] for row in step["classes"]] for step in again])
        text = self.load(*words)
        self.assertIn("50 requests/s for 1s, after 200ms; seed 1\n", text)
        self.assertIn("offered/s", text)

    def test_mistakes_are_named(self):
        mix = self.mix("tenant web token_file=DIR/web.token\n\nclass add graph=DIR/add.uop rate=many\n")
        self.assertIn('%s:3: rate: "many" is not requests a second' % mix, self.failure("--mix", mix))
        self.assertIn("it has no class: name a graph", self.failure())
        self.assertIn("--class a rat=5: rat: there is no such field", self.failure("--class", "a rat=5"))
        self.assertIn("cannot read /nowhere.load", self.failure("--mix", "/nowhere.load"))
        token = "web token_file=%s" % (self.folder / "web.token")
        self.assertIn("class a: /nowhere.uop", self.failure("--tenant", token, "--class", "a kind=execute graph=/nowhere.uop")
                      .replace("cannot read ", ""))  # fmt: skip


if __name__ == "__main__":
    unittest.main()
