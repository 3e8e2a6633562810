"""The open inference protocol over HTTP (--http_listen): asked by Triton's own client, by tenants, and by curl."""

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import support
import tritonclient.http as triton
from onnx import TensorProto
from serving_http import HttpTest, given, wanted

MLP = models.Mlp()
PAGE = support.ROOT / "docs" / "serving.md"
TENANTS = """
tenant { name: "user" token { sha256: "%s" } model: "open-*" }
tenant { name: "owner" token { sha256: "%s" } right: EXECUTE_RIGHT right: ADMIN_RIGHT }
tenant { name: "looker" token { sha256: "%s" } right: DEBUG_RIGHT }
tenant { name: "seldom" token { sha256: "%s" } quota { requests_per_second: 1 } }
"""


class TritonsClient(HttpTest):
    @classmethod
    def fill(cls):
        cls.folder.put("mlp", MLP.file())
        cls.folder.put("double", models.scale(2))
        cls.folder.put("half", models.scale(1.5, TensorProto.FLOAT16))
        cls.folder.put("integers", models.integers(), version=7)

    def test_numbers_are_what_numpy_computes_as_json_and_binary(self):
        draw = np.random.default_rng(2)
        for batch in (1, 7, 256):
            x = draw.standard_normal((batch, 16)).astype(np.float32)
            for binary_in in (True, False):
                for outputs in (None, [wanted("y")], [wanted("y", binary=False)]):
                    answer = self.client.infer("mlp", [given("x", x, binary_in)], outputs=outputs, request_id="r7")
                    np.testing.assert_allclose(answer.as_numpy("y"), MLP(x), rtol=1e-4, atol=1e-4)
                    said = answer.get_response()
                    self.assertEqual((said["id"], said["model_name"], said["model_version"]), ("r7", "mlp", "1"))

    def test_several_inputs_of_both_kinds_and_chosen_outputs(self):
        a, b, c = np.array([1, -2, 100], np.int8), np.array([5, 6, 7], np.int8), np.array([1 << 30, -4], np.int32)
        answer = self.client.infer("integers", [given("a", a), given("b", b, binary=False), given("c", c)],
                                   model_version="7", outputs=[wanted("same", binary=False), wanted("sum")])  # fmt: skip
        self.assertEqual([row["name"] for row in answer.get_response()["outputs"]], ["same", "sum"])
        self.assertEqual(answer.as_numpy("same").tolist(), c.tolist())
        self.assertEqual(answer.as_numpy("sum").tolist(), [6, 4, 107])

    def test_half_precision_travels_binary_alone(self):
        x = np.array([1, -2.5, 1000], np.float16)
        np.testing.assert_array_equal(self.client.infer("half", [given("x", x)]).as_numpy("y"), x * np.float16(1.5))
        self.refused(400, ["FP16", "binary_data_size"], self.client.infer, "half", [given("x", x, binary=False)])
        self.refused(400, ["FP16", "binary_data"], self.client.infer, "half", [given("x", x)],
                     outputs=[wanted("y", binary=False)])  # fmt: skip

    def test_what_is_no_number_goes_there_and_back(self):
        x = np.array([np.nan, np.inf, -np.inf, 0.1], np.float32)
        answer = self.client.infer("double", [given("x", x, binary=False)], outputs=[wanted("y", binary=False)])
        np.testing.assert_array_equal(answer.as_numpy("y"), 2 * x)

    def test_what_the_server_says_of_itself_and_its_models(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("mlp"))
        self.assertTrue(self.client.is_model_ready("integers", "7"))
        self.assertFalse(self.client.is_model_ready("integers", "1"))
        self.assertFalse(self.client.is_model_ready("nobody"))
        said = self.client.get_server_metadata()
        self.assertEqual(said["name"], "kiln")
        self.assertIn("binary_tensor_data", said["extensions"])
        said = self.client.get_model_metadata("mlp")
        self.assertEqual((said["name"], said["platform"], said["versions"]), ("mlp", "onnx", ["1"]))
        self.assertEqual(said["inputs"], [{"name": "x", "datatype": "FP32", "shape": [-1, 16]}])
        self.assertEqual(said["outputs"], [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}])
        config = self.client.get_model_config("integers", "7")
        self.assertEqual((config["name"], config["platform"], config["max_batch_size"]), ("integers", "onnx", 0))
        self.assertEqual([(row["name"], row["data_type"], row["dims"]) for row in config["input"]],
                         [("a", "TYPE_INT8", [3]), ("b", "TYPE_INT8", [3]), ("c", "TYPE_INT32", [2])])  # fmt: skip
        self.refused(404, ["nobody"], self.client.get_model_metadata, "nobody")
        self.refused(404, ["9"], self.client.get_model_config, "mlp", "9")

    def test_statistics_count_the_requests(self):
        def now():
            return self.client.get_inference_statistics("half")["model_stats"][0]

        before = now()
        for _ in range(3):
            self.client.infer("half", [given("x", np.ones(3, np.float16))])
        self.refused(400, ["x"], self.client.infer, "half", [given("x", np.ones((3, 3), np.float16))])
        after = now()
        self.assertEqual(after["inference_count"] - before["inference_count"], 3)
        self.assertEqual(after["inference_stats"]["fail"]["count"] - before["inference_stats"]["fail"]["count"], 1)
        self.assertEqual([row["name"] for row in self.client.get_inference_statistics()["model_stats"]],
                         ["double", "half", "integers", "mlp"])  # fmt: skip

    def test_operators_load_and_unload(self):
        self.folder.put("mine", models.scale(4))
        self.client.load_model("mine")
        index = {row["name"]: row["state"] for row in self.client.get_model_repository_index()}
        self.assertEqual(index["mine"], "READY")
        self.client.unload_model("mine")
        self.assertFalse(self.client.is_model_ready("mine"))
        status, _, ready = self.ask("POST", "/v2/repository/index", '{"ready": true}')
        self.assertEqual((status, {row["name"] for row in ready} & {"mine", "mlp"}), (200, {"mlp"}))
        self.refused(404, ["nobody"], self.client.load_model, "nobody")
        self.refused(501, ["parameters"], self.client.load_model, "mine", config="{}")

    def test_what_a_request_gets_wrong_is_named(self):
        x = np.zeros((2, 16), np.float32)
        self.refused(400, ['"x"', "FP64"], self.client.infer, "mlp", [given("x", x.astype(np.float64))])
        self.refused(400, ['"x"', "[2,15]"], self.client.infer, "mlp", [given("x", x[:, :15])])
        self.refused(400, ['"x"', "missing"], self.client.infer, "mlp", [])
        self.refused(400, ['"q"'], self.client.infer, "mlp", [given("x", x)], outputs=[wanted("q")])
        self.refused(404, ["nobody"], self.client.infer, "nobody", [given("x", x)])
        self.refused(501, ["sequence"], self.client.infer, "mlp", [given("x", x)], sequence_id=5)
        self.refused(415, ["Content-Encoding"], self.client.infer, "mlp", [given("x", x)],
                     request_compression_algorithm="gzip")  # fmt: skip
        self.refused(501, ["SystemSharedMemoryStatus"], self.client.get_system_shared_memory_status)

    def test_classes_as_json_and_binary(self):
        x = np.float32([3, 1, 2])
        for binary in (True, False):
            y = triton.InferRequestedOutput("y", binary_data=binary, class_count=2)
            answer = self.client.infer("double", [given("x", x)], outputs=[y])
            self.assertEqual(answer.get_output("y")["datatype"], "BYTES")
            said = [text.decode() if binary else text for text in answer.as_numpy("y").tolist()]
            self.assertEqual(said, ["6.000000:0", "4.000000:2"])

    def test_each_of_many_callers_gets_its_own_rows(self):
        wrong = []

        def call(seed):
            random = np.random.default_rng(seed)
            client = triton.InferenceServerClient(self.address, connection_timeout=60, network_timeout=60)
            for _ in range(10):
                x = random.standard_normal((int(random.integers(1, 4)), 16), np.float32)
                y = client.infer("mlp", [given("x", x)]).as_numpy("y")
                if y.shape[0] != x.shape[0] or not np.allclose(y, MLP(x), rtol=1e-4, atol=1e-4):
                    wrong.append((seed, x, y))
            client.close()

        threads = [threading.Thread(target=call, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Tenants(HttpTest):
    TOKEN = "owner"

    @classmethod
    def fill(cls):
        cls.folder.put("double", models.scale(2))
        cls.folder.put("open-double", models.scale(2))

    @classmethod
    def flags(cls):
        file = cls.folder.path / ".tenants.txtpb"
        names = ("user", "owner", "looker", "seldom")
        file.write_text(TENANTS % tuple(hashlib.sha256(name.encode()).hexdigest() for name in names))
        return ("--tenants=%s" % file,)

    def test_who_is_nobody_is_served_nothing(self):
        for path in ("/v2", "/v2/health/live", "/v2/models/double", "/v2/models/stats"):
            for token in (None, "wrong"):
                status, headers, _ = self.ask("GET", path, token=token)
                self.assertEqual((status, headers["WWW-Authenticate"]), (401, "Bearer"), path)
        self.assertEqual(self.infer([1])[0], 401)
        self.assertEqual(self.infer([1], token="owner")[2]["outputs"][0]["data"], [2])

    def test_rights_and_models(self):
        self.assertEqual(self.ask("GET", "/v2", token="looker")[0], 403)
        self.assertEqual(self.ask("POST", "/v2/repository/index", token="user")[0], 403)
        self.assertEqual(self.ask("POST", "/v2/repository/models/double/unload", token="user")[0], 403)
        self.assertEqual(self.ask("POST", "/v2/repository/index", token="owner")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/models/open-double", token="user")[0], 200)
        self.assertEqual(self.ask("GET", "/v2/models/double", token="user")[0], 404)
        self.assertEqual(self.infer([1], token="user")[0], 404)

    def test_statistics_are_ones_own(self):
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
        self.assertEqual(self.ask("POST", "/v2/models/open-double/infer", json.dumps(body), token="user")[0], 200)
        of_user = self.ask("GET", "/v2/models/stats", token="user")[2]["model_stats"]
        self.assertEqual([(row["name"], row["inference_count"]) for row in of_user], [("open-double", 1)])

    def test_who_asks_too_often_is_told_when_to_come_again(self):
        ask = b"GET /v2 HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer seldom\r\n"
        found = []

        def refusals():
            # Many at once, so that they come faster than one a second on any machine.
            with self.raw(19 * (ask + b"\r\n") + ask + b"Connection: close\r\n\r\n") as connection:
                text = connection.makefile("rb").read()
            found.extend(re.findall(rb"HTTP/1\.1 429 .*?\r\nRetry-After: (\d+)\r\n", text, re.S))
            return found

        self.assertTrue(support.eventually(refusals))
        self.assertGreaterEqual(int(found[0]), 1)


class Page(HttpTest):
    """The model that docs/serving.md makes to be tried by hand, and what it says that curl prints."""

    @classmethod
    def fill(cls):
        cls.section = PAGE.read_text().split("## By HTTP")[1].split("\n## ")[0]
        [code] = re.findall(r"^```python\n(.*?)^```$", cls.section, re.S | re.M)
        exec(code.replace('"models/', '"%s/' % cls.folder.path), {})

    def test_the_lines_for_curl(self):
        found = re.findall(r"^```sh\n(.*?)^```\n\n```json\n(.*?)^```$", self.section, re.S | re.M)
        self.assertGreaterEqual(len(found), 3)
        self.assertEqual(len(found), self.section.count("```sh"))
        for command, printed in found:
            with self.subTest(command):
                command = command.replace("127.0.0.1:8000", self.address)
                ran = subprocess.run(["bash", "-euc", command], capture_output=True, text=True, cwd=self.folder.path)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                self.assertEqual(json.loads(ran.stdout), json.loads(printed))


if __name__ == "__main__":
    unittest.main()
