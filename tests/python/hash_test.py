"""The graph hash in Python equals that of every other language, and the server's."""

import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import support
from google.protobuf import json_format

from kiln import GraphError, graph_hash
from kiln.v1 import graph_pb2

VECTORS = json.loads((support.ROOT / "tests" / "conformance" / "hash_vectors.json").read_text(),
                     parse_int=lambda text: -0.0 if text == "-0" else int(text))


class Hash(unittest.TestCase):
    def test_every_vector(self):
        self.assertGreater(len(VECTORS), 50)
        self.assertGreater(sum("error" in vector for vector in VECTORS), 30)
        for vector in VECTORS:
            with self.subTest(vector["name"]):
                graph = json_format.ParseDict(vector["graph"], graph_pb2.Graph())
                if "hash" in vector:
                    self.assertEqual(graph_hash(graph).hex(), vector["hash"])
                    continue
                with self.assertRaises(GraphError) as caught:
                    graph_hash(graph)
                self.assertEqual(caught.exception.code, vector["error"])
                self.assertEqual(caught.exception.node, vector.get("node"))

    def test_what_has_no_canonical_form_has_no_hash(self):
        constants = [
            dict(dtype="UINT8", i=256), dict(dtype="UINT8", i=-1), dict(dtype="INT8", u=128), dict(dtype="BOOL", i=2),
            dict(dtype="INT32", f=0.5), dict(dtype="INT32", f="Infinity"), dict(dtype="INT32"),
            dict(dtype="INT32", invalid=False), dict(dtype="WEAKINT", decimal="1e3"), dict(dtype="WEAKINT", decimal=""),
            dict(dtype="WEAKINT", decimal="9" * 1001), dict(dtype="FLOAT32", decimal="1"),
            dict(dtype="FLOAT16", bits=str(1 << 16)), dict(dtype="INT8", bits="256"), dict(dtype="VOID", i=0),
        ]  # fmt: skip
        for constant in constants:
            with self.subTest(constant), self.assertRaises(GraphError) as caught:
                graph_hash(json_format.ParseDict({"nodes": [{"op": "CONST", "constant": constant}]}, graph_pb2.Graph()))
            self.assertEqual(caught.exception.code, "BAD_ARGUMENT")

    def test_a_source_must_be_earlier(self):
        for source, code in ((0, "GRAPH_CYCLE"), (1, "SOURCE_OUT_OF_RANGE"), (7, "SOURCE_OUT_OF_RANGE")):
            with self.assertRaises(GraphError) as caught:
                graph_hash(graph_pb2.Graph(nodes=[graph_pb2.UOp(op=graph_pb2.SINK, src=[source])]))
            self.assertEqual(caught.exception.code, code)
            self.assertEqual(caught.exception.node, 0)
        with self.assertRaises(GraphError) as caught:
            graph_hash(graph_pb2.Graph())
        self.assertEqual(caught.exception.code, "GRAPH_EMPTY")


if __name__ == "__main__":
    unittest.main()
