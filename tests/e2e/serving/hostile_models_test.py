"""A folder of models that strangers have made to hurt: each is refused by its name, and what is good is served."""

import pathlib
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent / "python"), str(HERE)]

import numpy as np
import serving_models as models
import serving_test
from serving_test import given
from tritonclient.utils import InferenceServerException

MLP = models.Mlp()
# By the model's name: its file, and what the reason says.
HOSTILE = {
    "truncated": (MLP.file()[:-40], ["ends too early"]),
    "empty": (b"", ["no graph"]),
    "noise": (bytes(range(256)) * 40, ["no ONNX model"]),
    "outside": (models.outside("../../etc/passwd"), ["external data"]),
    "absolute": (models.outside("/etc/passwd"), ["external data"]),
    "cycle": (models.cycle(), ['"b"']),
    "huge": (models.huge(), ["memory could hold"]),
    "grown": (models.grown(), ["operations"]),
    "unknown_op": (models.unknown_op(), ["RunThis"]),
    "long_loop": (models.long_loop(), ['"long" (Loop', "turns: 4097, at most 4096"]),
    "loops": (models.loops(), ["nodes: 200001, at most 200000"]),
    "mixed_types": (models.mixed_types(), ['"mixed" (Add', "float32 and int64"]),
    "texts": (models.texts(), ['"words"', "string"]),
    "promises": (models.lying([1 << 20], bytes(16)), ['"k"', "4194304 bytes", "there are 16"]),
    "promises_all": (models.lying([1 << 40, 1 << 40], bytes(16)), ['"k"', "shape"]),
    "promises_a_lot": (models.lying([1 << 36], bytes(16)), ['"k"', "constant_bytes"]),
    "promises_less_than_nothing": (models.lying([-4], bytes(16)), ['"k"', "shape"]),
    "has_more": (models.lying([4], bytes(4096)), ['"k"', "16 bytes", "there are 4096"]),
}


class Hostile(serving_test.ServingTest):
    FLAGS = ("--compile_isolation=on",)

    @classmethod
    def fill(cls):
        for name, (file, _) in HOSTILE.items():
            cls.folder.put(name, file)
        cls.folder.put("good", models.scale(3))
        (cls.folder.path / "bad name" / "1").mkdir(parents=True)
        (cls.folder.path / "linked").symlink_to(cls.folder.path / "good")

    def assert_says(self, row, words):
        for word in words:
            self.assertIn(word, row.reason.replace('\\"', '"'), row.name)

    def serves(self):
        x = np.arange(4, dtype=np.float32)
        np.testing.assert_array_equal(self.infer("good", given("x", x)).as_numpy("y"), 3 * x)
        self.assertIsNone(self.server.process.poll())

    def test_each_is_refused_with_its_reason_and_the_good_one_serves(self):
        index = self.index()
        self.assertEqual(index["good", "1"].state, "READY")
        for name, (_, words) in HOSTILE.items():
            with self.subTest(name):
                row = index[name, "1"]
                self.assertEqual(row.state, "UNAVAILABLE")
                self.assertGreater(len(row.reason), 10)
                self.assertLess(len(row.reason), 400)
                self.assert_says(row, words)
                self.assertNotIn("root:", row.reason)
                self.assertFalse(self.client.is_model_ready(name))
                self.refused("NOT_FOUND", [name], self.infer, name, given("x", np.ones(4, np.float32)))
        self.assertIn("name", index["bad name", ""].reason)
        self.assertIn("links", index["linked", ""].reason)
        self.serves()

    def test_they_come_to_a_server_that_serves_and_no_call_fails(self):
        answered, failures, stop = [], [], threading.Event()

        def call():
            while not stop.is_set():
                try:
                    answered.append(self.infer("good", given("x", np.ones(4, np.float32))).as_numpy("y").tolist())
                except InferenceServerException as error:
                    failures.append(error)
                    return

        caller = threading.Thread(target=call)
        caller.start()
        try:
            for name, (file, _) in HOSTILE.items():
                self.folder.put("again_" + name, file)
            self.folder.put("good_too", models.scale(5))
            self.wait(lambda: failures or self.client.is_model_ready("good_too"))
            begun = len(answered)
            self.wait(lambda: failures or len(answered) > begun)
            index = self.index()
            for name, (_, words) in HOSTILE.items():
                self.assert_says(index["again_" + name, "1"], words)
        finally:
            stop.set()
            caller.join()
        self.assertEqual(failures, [])
        self.assertEqual([row for row in answered if row != [3, 3, 3, 3]], [])
        self.serves()


if __name__ == "__main__":
    unittest.main()
