"""What is logged and traced, read and set while the server runs, by Triton's own clients."""

import hashlib
import json
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE.parent.parent / "python" / "server"), str(HERE)]

import numpy as np
import serving_models as models
import support
import tritonclient.grpc as triton
import tritonclient.http as triton_http
from collector import Collector
from tritonclient.utils import InferenceServerException

LEVELS = ("log_error", "log_warning", "log_info", "log_verbose_level")
OWNER, READER = {"authorization": "Bearer owner"}, {"authorization": "Bearer reader"}


def http_port(server):
    return next(int(found.group(1)) for line in server.log
                for found in [re.search(r"event=http .*\bport=(\d+)", line)] if found)  # fmt: skip


class Settings(unittest.TestCase):
    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = models.Folder(cls)
        cls.folder.put("scale", models.scale(2))
        cls.server = support.Server("--models=%s" % cls.folder.path, "--http_listen=127.0.0.1:0", *cls.flags())
        cls.addClassCleanup(cls.server.stop)
        cls.client = triton.InferenceServerClient(cls.server.address)
        cls.addClassCleanup(cls.client.close)
        cls.http = triton_http.InferenceServerClient("127.0.0.1:%d" % http_port(cls.server), connection_timeout=60,
                                                     network_timeout=60)  # fmt: skip
        cls.addClassCleanup(cls.http.close)

    @classmethod
    def flags(cls):
        return cls.FLAGS

    def refused(self, code, words, call, *arguments, **more):
        with self.assertRaises(InferenceServerException) as caught:
            call(*arguments, **more)
        self.assertIn(caught.exception.status(), ("StatusCode." + code, code), caught.exception.message())
        for word in words:
            self.assertIn(word, caught.exception.message())

    def levels(self, **more):
        said = self.client.get_log_settings(as_json=True, **more)["settings"]
        return tuple(next(iter(said[name].values())) for name in LEVELS)


class Logs(Settings):
    def tearDown(self):
        self.client.update_log_settings({"log_info": True, "log_verbose_level": 0})

    def test_levels_are_read_and_set(self):
        self.assertEqual(self.levels(), (True, True, True, 0))
        for settings, levels in (({"log_info": False}, (True, True, False, 0)),
                                 ({"log_verbose_level": 1}, (True, True, True, 1)),
                                 ({"log_verbose_level": 5}, (True, True, True, 2)),
                                 ({"log_warning": False}, (True, False, False, 0)),
                                 ({"log_warning": True, "log_info": False}, (True, True, False, 0)),
                                 ({"log_info": True}, (True, True, True, 0))):  # fmt: skip
            answer = self.client.update_log_settings(settings, as_json=True)["settings"]
            self.assertEqual(tuple(next(iter(answer[name].values())) for name in LEVELS), levels, settings)
            self.assertEqual(self.levels(), levels, settings)
        said = self.http.get_log_settings()
        self.assertEqual(said, {"log_file": "", "log_format": "text", "log_error": True, "log_warning": True,
                                "log_info": True, "log_verbose_level": 0})  # fmt: skip
        self.assertEqual(self.http.update_log_settings({"log_verbose_level": 1})["log_verbose_level"], 1)
        self.assertEqual(self.levels(), (True, True, True, 1))

    def test_what_is_turned_off_is_not_told(self):
        def told(name):
            return [line for line in self.server.log if "event=model_loaded" in line and name in line]

        self.client.update_log_settings({"log_info": False})
        self.folder.put("silent", models.scale(3))
        self.assertTrue(support.eventually(lambda: self.client.is_model_ready("silent")))
        self.client.update_log_settings({"log_info": True})
        self.folder.put("loud", models.scale(3))
        self.assertTrue(support.eventually(lambda: told("loud")))
        self.assertEqual(told("silent"), [])
        self.assertTrue(any("event=log_level level=warning" in line for line in self.server.log))

    def test_what_cannot_be_is_refused_by_name(self):
        for settings, code, word in (({"log_file": "/etc/passwd"}, "UNIMPLEMENTED", "log_file"),
                                     ({"log_format": "ISO8601"}, "UNIMPLEMENTED", "log_format"),
                                     ({"log_colour": True}, "UNIMPLEMENTED", "log_colour"),
                                     ({"log_info": None}, "INVALID_ARGUMENT", "log_info"),
                                     ({"log_error": False}, "INVALID_ARGUMENT", "log_error"),
                                     ({"log_info": False, "log_verbose_level": 1}, "INVALID_ARGUMENT",
                                      "contradicts")):  # fmt: skip
            self.refused(code, [word], self.client.update_log_settings, settings)
        self.refused("400", ["log_info"], self.http.update_log_settings, {"log_info": []})
        self.refused("501", ["log_file"], self.http.update_log_settings, {"log_file": "x"})
        self.assertEqual(self.levels(), (True, True, True, 0))

    def test_without_a_collector_no_trace_can_be_chosen(self):
        said = {name: list(row.value) for name, row in self.client.get_trace_settings().settings.items()}
        self.assertEqual((said["trace_level"], said["trace_count"]), (["OFF"], ["-1"]))
        self.refused("UNIMPLEMENTED", ["--otlp_endpoint"], self.client.update_trace_settings,
                     settings={"trace_level": ["TIMESTAMPS"]})  # fmt: skip


class Traces(Settings):
    @classmethod
    def flags(cls):
        cls.collector = Collector()
        cls.addClassCleanup(cls.collector.stop)
        return ("--otlp_endpoint=" + cls.collector.url, "--trace_sample_ratio=0.01")

    def tearDown(self):
        self.client.update_trace_settings(settings={"trace_level": None, "trace_rate": None})

    def said(self, **more):
        return {name: list(row.value) for name, row in self.client.get_trace_settings(**more).settings.items()}

    def infer(self):
        x = triton.InferInput("x", [2], "FP32")
        x.set_data_from_numpy(np.ones(2, np.float32))
        self.client.infer("scale", [x])

    def test_all_calls_are_traced_once_that_is_set(self):
        self.assertEqual((self.said()["trace_level"], self.said()["trace_rate"]), (["TIMESTAMPS"], ["100"]))
        answer = self.client.update_trace_settings(settings={"trace_rate": "1"})
        self.assertEqual(list(answer.settings["trace_rate"].value), ["1"])
        self.assertTrue(support.eventually(lambda: self.client.is_model_ready("scale")))
        for _ in range(3):
            self.infer()
        wanted = "inference.GRPCInferenceService/ModelInfer"
        self.assertTrue(support.eventually(
            lambda: len([span for span in self.collector.spans() if span.name == wanted]) == 3))  # fmt: skip
        self.client.update_trace_settings(settings={"trace_level": "OFF"})
        self.assertEqual((self.said()["trace_level"], self.said()["trace_rate"]), (["OFF"], ["1"]))
        for _ in range(3):
            self.infer()
        # What comes later comes behind them, if they came.
        self.client.update_trace_settings(settings={"trace_level": "TIMESTAMPS"})
        self.client.get_model_config("scale")
        self.assertTrue(support.eventually(
            lambda: any(span.name.endswith("/ModelConfig") for span in self.collector.spans())))  # fmt: skip
        self.assertEqual(len([span for span in self.collector.spans() if span.name == wanted]), 3)
        self.client.update_trace_settings(settings={"trace_rate": None})
        self.assertEqual(self.said()["trace_rate"], ["100"])

    def test_by_http(self):
        self.assertEqual(self.http.update_trace_settings(settings={"trace_rate": "4"})["trace_rate"], "4")
        said = self.http.get_trace_settings()
        self.assertEqual(said, {"trace_level": ["TIMESTAMPS"], "trace_rate": "4", "trace_count": "-1", "trace_file": "",
                                "log_frequency": "0", "trace_mode": "opentelemetry"})  # fmt: skip
        self.assertEqual(self.http.update_trace_settings(settings={"trace_level": ["OFF"]})["trace_level"], ["OFF"])
        self.assertEqual(self.http.update_trace_settings(settings={"trace_rate": None})["trace_rate"], "100")

    def test_models_have_the_servers_settings(self):
        self.assertTrue(support.eventually(lambda: self.client.is_model_ready("scale")))
        self.assertEqual(self.said(model_name="scale"), self.said())
        self.assertEqual(self.http.get_trace_settings("scale")["trace_rate"], "100")
        self.refused("NOT_FOUND", ["nobody"], self.client.get_trace_settings, "nobody")
        self.refused("UNIMPLEMENTED", ["model_name"], self.client.update_trace_settings, "scale", {"trace_rate": "1"})

    def test_what_cannot_be_is_refused_by_name(self):
        for name, value, code in (("trace_rate", "0", "INVALID_ARGUMENT"), ("trace_rate", "often", "INVALID_ARGUMENT"),
                                  ("trace_level", ["TENSORS"], "INVALID_ARGUMENT"),
                                  ("trace_file", "/etc/passwd", "UNIMPLEMENTED"),
                                  ("trace_count", "5", "UNIMPLEMENTED"), ("none", "5", "UNIMPLEMENTED")):  # fmt: skip
            self.refused(code, [name], self.client.update_trace_settings, settings={name: value})
        self.assertEqual((self.said()["trace_level"], self.said()["trace_rate"]), (["TIMESTAMPS"], ["100"]))


class Rights(Settings):
    @classmethod
    def flags(cls):
        file, cls.audit = cls.folder.path / ".tenants.txtpb", cls.folder.path / ".audit"
        owner, reader = (hashlib.sha256(name).hexdigest() for name in (b"owner", b"reader"))
        file.write_text('tenant { name: "owner" token { sha256: "%s" } right: EXECUTE_RIGHT right: ADMIN_RIGHT }\n'
                        'tenant { name: "reader" token { sha256: "%s" } }' % (owner, reader))  # fmt: skip
        return ("--tenants=%s" % file, "--audit_log=%s" % cls.audit, "--otlp_endpoint=http://127.0.0.1:9/v1/traces")

    def test_all_may_read_and_who_administers_sets(self):
        self.assertEqual(self.levels(headers=READER), (True, True, True, 0))
        self.refused("PERMISSION_DENIED", ["reader"], self.client.update_log_settings, {"log_info": False},
                     headers=READER)  # fmt: skip
        self.refused("PERMISSION_DENIED", ["reader"], self.client.update_trace_settings, None, {"trace_rate": "1"},
                     headers=READER)  # fmt: skip
        self.assertEqual(self.levels(headers=READER), (True, True, True, 0))
        self.client.update_log_settings({"log_verbose_level": 1}, headers=OWNER)
        self.assertEqual(self.levels(headers=READER), (True, True, True, 1))
        self.client.update_trace_settings(None, {"trace_rate": "7"}, headers=OWNER)
        self.assertEqual(list(self.client.get_trace_settings(headers=READER).settings["trace_rate"].value), ["7"])
        # Who set is in the audit log, and who read is not.
        self.assertTrue(support.eventually(lambda: "GRPCInferenceService.TraceSetting" in self.audit.read_text()))
        lines = [json.loads(line) for line in self.audit.read_text().splitlines()]
        self.assertEqual([(line["tenant"], line["method"], line["status"]) for line in lines if line["event"] == "called"],
                         [("owner", "GRPCInferenceService.LogSettings", "OK"),
                          ("owner", "GRPCInferenceService.TraceSetting", "OK")])  # fmt: skip
        self.assertIn(("reader", "GRPCInferenceService.LogSettings"),
                      [(line["tenant"], line["method"]) for line in lines if line["event"] == "refused"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()
