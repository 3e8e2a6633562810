"""The pages of the admin port as HTTP has them: their files, their headers, and what they ask for as JSON. What a browser
makes of them is tests/pages/pages.py's."""

import contextlib
import hashlib
import http.client
import json
import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import admin
import kiln
import support
from kiln.v1 import dtype_pb2, graph_pb2

WEB = support.ROOT / "server" / "admin" / "web"
FILES = sorted(str(path.relative_to(WEB)) for path in WEB.rglob("*") if path.is_file())
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}  # fmt: skip
HOSTILE = "</pre><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"

# By which text could become markup or code; view.js is the one that writes the document.
MARKUP = re.compile(r"\b(?:inner|outer)HTML|insertAdjacentHTML|document\.write|\beval\(|new Function|DOMParser|srcdoc|"
                    r"createContextualFragment|setTimeout\(\s*[\"'`]|javascript:")  # fmt: skip
ELSEWHERE = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[\w.-]+\.\w+/?")


def ask(port, path, method="GET", **headers):
    """(status, headers, body)."""
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


class Sources(unittest.TestCase):
    def test_text_stays_text(self):
        self.assertGreater(len(FILES), 20)
        for name in FILES:
            with self.subTest(name):
                self.assertIsNone(MARKUP.search((WEB / name).read_text()))

    def test_nothing_comes_from_elsewhere(self):
        for name in FILES:
            text = re.sub(r"^\s*//.*$", "", (WEB / name).read_text(), flags=re.M)
            with self.subTest(name):
                self.assertIsNone(ELSEWHERE.search(text))

    def test_every_module_and_style_is_used(self):
        page = (WEB / "index.html").read_text()
        self.assertNotRegex(page, r"<style|\sstyle=|\son\w+=|<script(?! type=\"module\" src=)")
        named = {path for path in re.findall(r'(?:src|href)="/web/([^"]+)"', page)}
        for name in FILES:
            if name.endswith(".js"):
                for path in re.findall(r'from "([^"]+)"', (WEB / name).read_text()):
                    self.assertRegex(path, r"^\.\.?/.*\.js$", name)
                    named.add(str((WEB / name).parent.joinpath(path).resolve().relative_to(WEB)))
        self.assertEqual(named | {"index.html"}, set(FILES))

    def test_modules_are_short(self):
        for name in FILES:
            with self.subTest(name):
                self.assertLessEqual(len((WEB / name).read_text().splitlines()), 280)


class Pages(unittest.TestCase):
    """A server with two tenants."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        tenants = pathlib.Path(folder.name) / "tenants.txtpb"
        tenants.write_text("".join(
            'tenant { name: "%s" weight: %d token { sha256: "%s" } }\n' % (name, weight, hashlib.sha256(name.encode()).hexdigest())
            for name, weight in (("alice", 1), ("bob", 3))))
        cls.server = support.Server("--admin_listen=127.0.0.1:0", "--tenants=%s" % tenants, "--admin_names=gpu1,gpu1.example")
        cls.addClassCleanup(cls.server.stop)
        cls.port = admin.Admin(cls.server).port

    def json(self, path, wanted=200):
        status, headers, body = ask(self.port, path)
        self.assertEqual(status, wanted, body)
        self.assertEqual(headers["Content-Type"], "application/json")
        self.assertEqual(headers["Cache-Control"], "no-store")
        return json.loads(body)

    def connect(self, tenant):
        client = kiln.connect(self.server.address, token=tenant)
        self.addCleanup(client.close)
        return client

    def test_every_file_is_served_as_it_is(self):
        for name in FILES:
            with self.subTest(name):
                path = "/" if name == "index.html" else "/web/" + name
                status, headers, body = ask(self.port, path)
                self.assertEqual((status, body), (200, (WEB / name).read_bytes()))
                self.assertEqual(headers["Content-Type"], TYPES[pathlib.PurePosixPath(name).suffix])
                self.assertEqual(headers["Cache-Control"], "no-cache")
                status, again, body = ask(self.port, path, If_None_Match=headers["ETag"])
                self.assertEqual((status, body, again["ETag"]), (304, b"", headers["ETag"]))
                self.assertEqual(ask(self.port, path, If_None_Match='"other"')[0], 200)

    def test_rules_for_browsers(self):
        for path in ("/", "/web/main.js", "/api/state", "/metrics", "/no/such/page"):
            with self.subTest(path):
                headers = ask(self.port, path)[1]
                rules = dict(rule.split(" ", 1) for rule in headers["Content-Security-Policy"].split("; "))
                self.assertEqual(rules["default-src"], "'none'")
                for kind in ("script-src", "style-src", "img-src", "connect-src"):
                    self.assertEqual(rules[kind], "'self'")
                for kind in ("base-uri", "form-action", "frame-ancestors", "trusted-types"):
                    self.assertEqual(rules[kind], "'none'")
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(headers["Referrer-Policy"], "no-referrer")
                self.assertEqual(headers["Cross-Origin-Resource-Policy"], "same-origin")
                self.assertFalse([name for name in headers if name.lower().startswith("access-control")])

    def test_what_is_not_there_or_not_read(self):
        for path in ("/web/", "/web/none.js", "/web/../pages.cc", "/api/", "/api/none", "/index.html"):
            self.assertEqual(ask(self.port, path)[0], 404, path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            for path in ("/", "/api/state", "/api/program"):
                self.assertEqual(ask(self.port, path, method)[0], 405, (method, path))
        self.assertEqual(ask(self.port, "/", "HEAD")[2], b"")

    def test_only_our_own_names_lead_here(self):
        for host in ("localhost", "127.0.0.1:%d" % self.port, "gpu1", "gpu1.example:80"):
            self.assertEqual(ask(self.port, "/api/state", Host=host)[0], 200, host)
        for host in ("evil.example", "gpu1.example.evil", "localhost.evil.example"):
            status, _, body = ask(self.port, "/api/state", Host=host)
            self.assertEqual(status, 421, host)
            self.assertNotIn(b"alice", body)

    def test_the_state_has_what_happened(self):
        client = self.connect("bob")
        x = client.arange(64, dtype="int32")
        program = client.compile(graph_of("ADD", 64))
        runs = 5
        for _ in range(runs):
            program.run([x, x])
        client.fence()
        state = self.json("/api/state?rows=1000&history=180")
        self.assertEqual([row["name"] for row in state["tenants"] if row["name"]], ["alice", "bob"])
        bob = next(row for row in state["tenants"] if row["name"] == "bob")
        self.assertEqual(bob["weight"], 3)
        self.assertIs(state["whole"], True)
        row = next(row for row in state["programs"] if row["graph_hash"] == program.hash.hex())
        self.assertEqual((row["tenant"], row["device"], row["runs"]), ("bob", "CPU:0", str(runs)))
        self.assertGreater(row["device_seconds"], 0)
        self.assertEqual(self.json("/api/state?rows=1")["programs_left_out"], len(state["programs"]) - 1)
        self.assertEqual(self.json("/api/state")["history"], [])

        calls = self.json("/api/calls")["slow_calls"]
        mine = [call for call in calls if call["tenant"] == "bob"]
        self.assertTrue(mine)
        self.assertLessEqual({part["name"] for call in mine for part in call["parts"]},
                             set(re.findall(r'^  \["(\w+)", "', (WEB / "lib" / "colours.js").read_text(), re.M)))  # fmt: skip
        self.assertGreaterEqual(int(self.json("/api/cache")["compiles"]), 1)

    def test_numbers_beyond_53_bits_are_known_to_be_text(self):
        """model.js lists the fields that JSON has as text; one that it did not know would be added up as text."""
        known = set(re.findall(r'"(\w+)"', re.search(r"WHOLE = new Set\(\[(.*?)\]\)", (WEB / "lib" / "model.js").read_text(), re.S).group(1)))
        texts = {"graph_hash", "id", "name", "kind", "host", "tenant", "device", "session", "trace_id", "description", "version", "build"}

        def walk(value, name=""):
            for key, each in value.items() if isinstance(value, dict) else []:
                walk(each, key)
            for each in value if isinstance(value, list) else []:
                walk(each, name)
            if isinstance(value, str) and re.fullmatch(r"-?\d+", value) and name not in texts:
                self.assertIn(name, known)

        client = self.connect("alice")
        client.buffer([1.0] * 100)
        client.fence()
        for path in ("/api/state?rows=1000&history=180", "/api/calls", "/api/cache"):
            walk(self.json(path))

    def test_every_stage_of_a_program_as_text(self):
        client = self.connect("alice")
        graph = graph_of("MUL", 8, name=HOSTILE)
        program = client.compile(graph)
        query = urllib.parse.urlencode({"hash": program.hash.hex(), "device": "CPU:0", "tenant": "alice"})
        self.json("/api/program?%s" % query.replace("CPU%3A0", "CPU%3A9"), 404)
        self.json("/api/program?%s" % query.replace("alice", "bob"), 404)
        self.json("/api/program", 404)
        found = {}

        def made():
            status, _, body = ask(self.port, "/api/program?" + query)
            self.assertIn(status, (200, 202, 429), body)
            found.update(json.loads(body))
            return status == 200

        self.assertTrue(support.eventually(made))
        names = [stage["name"] for stage in found["stages"]]
        self.assertIn("llvm", names)
        self.assertTrue([name for name in names if name.endswith(".normalise")], names)
        self.assertEqual(len(found["kernels"]), 1)
        self.assertEqual({stage["text"] for stage in found["stages"]}, {""})
        first = self.json("/api/program?%s&%s" % (query, urllib.parse.urlencode({"stage": names[0]})))
        self.assertEqual(first["name"], names[0])
        self.assertIn("PARAM", first["text"])
        self.assertIn(HOSTILE.split('"')[0], first["text"])
        self.json("/api/program?%s&stage=none" % query, 404)
        # An answer is JSON, whatever is in it, and no browser takes it for a page.
        self.assertEqual(ask(self.port, "/api/program?" + query)[1]["X-Content-Type-Options"], "nosniff")


def graph_of(op, size, name="x"):
    """op(x, y) of two vectors, of which x has that name."""
    graph = graph_pb2.Graph()
    nodes = graph.nodes
    nodes.add(op=graph_pb2.CONST, constant=graph_pb2.ConstArg(dtype=dtype_pb2.WEAKINT, i=size))
    nodes.add(op=graph_pb2.STACK, src=[0])
    for slot, each in enumerate((name, "y")):
        nodes.add(op=graph_pb2.PARAM, src=[1], buffer=graph_pb2.BufferArg(slot=slot, dtype=dtype_pb2.INT32, name=each))
    nodes.add(op=graph_pb2.Op.Value(op), src=[2, 3])
    nodes.add(op=graph_pb2.TUPLE, src=[4])
    return graph


if __name__ == "__main__":
    unittest.main()
