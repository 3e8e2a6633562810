"""Real models, from packages that carry them, give by `kiln run` what onnxruntime gives."""

import importlib.util
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import onnxruntime
from PIL import Image, ImageDraw

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "examples")]

import support

TOLERANCE = 1e-4


def file_of(package, path):
    return pathlib.Path(importlib.util.find_spec(package).origin).parent / path


def words_in(height, width):
    """A picture of a word, from -1 to 1, as three equal colours."""
    picture = Image.new("L", (80, 40), 255)
    ImageDraw.Draw(picture).text((12, 14), "KILN 2026", fill=0)
    grey = np.asarray(picture.resize((width, height), Image.BILINEAR), np.float32) / 127.5 - 1
    return np.broadcast_to(grey, (1, 3, height, width)).copy()


class RealModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.server = support.Server()
        cls.addClassCleanup(cls.server.stop)

    def compare(self, model, **inputs):
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        wanted = session.run(None, inputs)
        words = ["run", "--server", self.server.address, str(model)]
        for name, value in inputs.items():
            np.save(self.folder / (name + ".npy"), value)
            words += ["-i", "%s=%s" % (name, self.folder / (name + ".npy"))]
        for i in range(len(wanted)):
            words += ["-o", str(self.folder / ("result%d.npy" % i))]
        support.cli(*words)
        for i, value in enumerate(wanted):
            self.assertGreater(np.abs(value).max(), 10 * TOLERANCE)  # else any zeros would do
            np.testing.assert_allclose(np.load(self.folder / ("result%d.npy" % i)), value, rtol=0, atol=TOLERANCE)

    def test_silero_vad(self):
        sound = np.sin(np.arange(576, dtype=np.float32)[None] * 0.07)
        for name in ("silero_vad.onnx", "silero_vad_16k_op15.onnx"):
            with self.subTest(name):
                self.compare(file_of("silero_vad", "data/" + name), input=sound,
                             state=np.zeros((2, 1, 128), np.float32), sr=np.array(16000))  # fmt: skip

    def test_magika(self):
        [model] = file_of("magika", "models").glob("standard_v3_3/model.onnx")
        text = np.frombuffer(pathlib.Path(__file__).read_bytes()[:1024], np.uint8)
        self.compare(model, bytes=np.concatenate([text, text]).astype(np.int32)[None])

    def test_rapidocr(self):
        for name, height, width in (
            ("ch_PP-OCRv4_det_infer", 160, 320),
            ("ch_PP-OCRv4_rec_infer", 48, 160),
            ("ch_ppocr_mobile_v2.0_cls_infer", 48, 192),
        ):
            with self.subTest(name):
                self.compare(file_of("rapidocr_onnxruntime", "models/%s.onnx" % name), x=words_in(height, width))

    def test_minilm(self):
        import minilm_model
        import wordpiece

        model = self.folder / "minilm.onnx"
        minilm_model.write(model)
        vocabulary = wordpiece.read_vocabulary(minilm_model.PACKAGE / "vocab.txt")
        texts = ("A kitten naps on the couch.", "Dinner!", "The train departs at twelve o'clock.")
        rows = [wordpiece.tokens(text, vocabulary) for text in texts]
        ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
        for into, row in zip(ids, rows):
            into[: len(row)] = row
        self.compare(model, input_ids=ids, attention_mask=np.int64(ids > 0))


if __name__ == "__main__":
    unittest.main()
