"""The examples run on a server, print what they promise, and give what other engines give.

Every tensor graph goes to Kiln whole: a fallback fails the test.
"""

import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "tinygrad"), str(ROOT / "examples"), str(pathlib.Path(__file__).resolve().parent)]

import device
import numpy as np

kiln_tinygrad = None


def setUpModule():
    global kiln_tinygrad
    kiln_tinygrad = device.start("T")


def session(path):
    """onnxruntime's, on one thread, without its warnings."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options)


class Examples(unittest.TestCase):
    def setUp(self):
        kiln_tinygrad.reset_stats()

    def run_example(self, main, *args):
        """What it returns, and the lines that it prints."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = main(*args)
        stats = kiln_tinygrad.stats()
        self.assertFalse(stats.fallbacks)
        self.assertEqual(stats.kernels, 0)
        self.assertGreater(stats.graphs, 0)
        return result, printed.getvalue().splitlines()

    def close(self, actual, wanted):
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())

    def test_sentences(self):
        import minilm
        import sentences

        cosines, lines = self.run_example(sentences.main)
        vocabulary = sentences.read_vocabulary(sentences.MODEL / "vocab.txt")
        reference = minilm.Reference(sentences.MODEL / "model.safetensors")
        wanted = [np.dot(*(reference.embedding(sentences.tokens(text, vocabulary)) for text in pair))
                  for pair in sentences.PAIRS]  # fmt: skip
        self.assertEqual(len(wanted), 10)
        np.testing.assert_allclose(cosines, wanted, rtol=0, atol=1e-5)
        for line, cosine, pair in zip(lines, wanted, sentences.PAIRS):
            self.assertEqual(line.split(), [*("%.3f %s %s" % (cosine, *pair)).split()])

    def test_wordpiece(self):
        import sentences

        vocabulary = sentences.read_vocabulary(sentences.MODEL / "vocab.txt")
        names = list(vocabulary)
        for text, wanted in (
            ("This is an example sentence", "[CLS] this is an example sentence [SEP]"),
            ("Café, naïve: unaffable!", "[CLS] cafe , naive : una ##ffa ##ble ! [SEP]"),
            ("snake_case", "[CLS] snake _ case [SEP]"),
            ("\u2603", "[CLS] [UNK] [SEP]"),
        ):
            with self.subTest(text):
                self.assertEqual(" ".join(names[n] for n in sentences.tokens(text, vocabulary)), wanted)
        self.assertEqual(sentences.tokens("This is an example sentence", vocabulary),
                         [101, 2023, 2003, 2019, 2742, 6251, 102])  # fmt: skip

    def test_voice(self):
        import voice

        heard, lines = self.run_example(voice.main)
        parts, sound = voice.signal()
        model, state = session(voice.MODEL), np.zeros((2, 1, 128), np.float32)
        padded, wanted = np.concatenate([np.zeros(voice.CONTEXT, np.float32), sound]), []
        for start in range(0, len(sound), voice.FRAME):
            frame = padded[None, start : start + voice.CONTEXT + voice.FRAME]
            rate = np.array(voice.RATE, np.int64)
            probability, state = model.run(None, {"input": frame, "state": state, "sr": rate})
            wanted.append(probability.item())
        self.close(heard, wanted)
        parts = np.array(parts)
        self.assertLess(heard[(parts != "speech") & (parts != "end")].max(), 0.2)
        self.assertGreater(np.median(heard[parts == "speech"]), 0.9)
        self.assertLess(heard[-10:].max(), 0.1)
        self.assertEqual(len(lines), len(parts) // 2)

    def test_file_types(self):
        import file_types
        from magika import Magika

        (paths, labels, scores), lines = self.run_example(file_types.main)
        self.assertEqual(labels, list(file_types.FILES.values()))
        own = Magika()
        rows = []
        for path in paths:
            _, found = own._get_result_or_features_from_path(path)
            rows.append(found.beg + found.end)
        wanted = session(file_types.MODEL / "model.onnx").run(None, {"bytes": np.array(rows, np.int32)})[0]
        self.close(scores, wanted)
        said = [line.split()[:2] for line in lines]
        self.assertEqual(said, [[path.name, label] for path, label in zip(paths, labels)])

    def test_text_detection(self):
        import text_detection

        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "boxes.png")
            (heat, boxes), lines = self.run_example(text_detection.main, output)
            with text_detection.Image.open(output) as picture:
                drawn = np.asarray(picture).copy()
        plain, wanted = text_detection.draw()
        pixels = (np.asarray(plain, np.float32)[:, :, ::-1] / 255 - 0.5) / 0.5
        pixels = np.ascontiguousarray(pixels.transpose(2, 0, 1)[None])
        self.close(heat, session(text_detection.MODEL).run(None, {"x": pixels})[0][0, 0])
        self.assertEqual(len(boxes), len(wanted))
        self.assertEqual(len(lines), len(wanted))
        for box, true in zip(boxes, wanted):
            width, height = (min(box[n + 2], true[n + 2]) - max(box[n], true[n]) for n in (0, 1))
            area = lambda b: (b[2] - b[0]) * (b[3] - b[1])
            self.assertGreater(width * height / (area(box) + area(true) - width * height), 0.6, (box, true))
            left, top = round(box[0]), round(box[1])
            self.assertEqual(tuple(drawn[top + 4, left]), (255, 0, 0))

    def test_digits(self):
        import digits

        accuracy, lines = self.run_example(digits.main)
        self.assertGreaterEqual(accuracy, 0.97)
        self.assertEqual(lines[-1], "read %d of 360: %.4f" % (round(360 * accuracy), accuracy))
        losses = [float(line.split()[-1]) for line in lines if line.startswith("epoch")]
        self.assertEqual(len(losses), digits.EPOCHS)
        self.assertLess(losses[-1], losses[0] / 10)

    def test_a_script_of_its_own(self):
        path = os.pathsep.join(filter(None, (str(device.support.PACKAGE), os.environ.get("PYTHONPATH"))))
        run = subprocess.run([sys.executable, "examples/file_types.py", "README.md", "dev"], cwd=ROOT, text=True,
                             env=dict(os.environ, PYTHONPATH=path), stdout=subprocess.PIPE, check=True)  # fmt: skip
        said = [line.split()[:2] for line in run.stdout.splitlines()]
        self.assertEqual(said, [["README.md", "markdown"], ["dev", "shell"]])


class DataParallel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = device.support.Server("--cpu_devices=4")
        cls.addClassCleanup(cls.server.stop)

    def test_four_devices_train_as_one(self):
        import data_parallel
        import kiln

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            with unittest.mock.patch.dict(os.environ, KILN_ADDR=self.server.address):
                _, loss = data_parallel.main()
        self.assertLess(loss, 0.2)
        self.assertEqual(len(printed.getvalue().splitlines()), data_parallel.EPOCHS + 1)
        with kiln.connect(self.server.address) as client:
            train = lambda devices, **how: data_parallel.train(client, devices, epochs=1, **how)[0]
            one, any_order = train(data_parallel.DEVICES[:1]), train(data_parallel.DEVICES)
            in_order, again = ([weight.tobytes() for weight in train(data_parallel.DEVICES, deterministic=True)]
                               for _ in range(2))  # fmt: skip
        self.assertEqual(in_order, again)
        for weight, alone in zip(any_order, one):
            for copy in weight:
                np.testing.assert_allclose(copy, alone[0], rtol=1e-5, atol=1e-5)
            self.assertEqual(len({copy.tobytes() for copy in weight}), 1)


    @unittest.skipIf(sys.version_info < (3, 11), "jax 0.9 wants Python 3.11")
    def test_a_net_of_jax(self):
        import jax_mlp

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            with unittest.mock.patch.dict(os.environ, KILN_ADDR=self.server.address):
                apart, right = jax_mlp.main()
        # Of 110 steps: each rounds otherwise, and all go on from there.
        self.assertLess(max(apart), 1e-4)
        self.assertGreater(right, 0.9)
        self.assertEqual(len(printed.getvalue().splitlines()), 2)


class Rules(unittest.TestCase):
    def test_examples_are_short(self):
        for path in sorted((ROOT / "examples").glob("*.py")):
            with self.subTest(path.name):
                text = path.read_text().splitlines()
                self.assertLessEqual(len(text), 60)
                self.assertLessEqual(max(map(len, text)), 120)


if __name__ == "__main__":
    unittest.main()
