"""Images read between their pixels, signals and words, beside onnxruntime and numpy."""

import unittest

import numpy as np
from beside import Beside


class Places(Beside):
    domain = ""

    def test_regions_of_images(self):
        x = self.random(2, 3, 9, 11)
        regions = np.float32([[1, 1, 6, 5], [0.3, 2.2, 10.7, 8.9], [-4, -3, 3, 2], [4, 4, 4.2, 4.1]])
        images = np.array([0, 1, 1, 0])
        for mode in ("avg", "max"):
            for way in ("half_pixel", "output_half_pixel"):
                self.check("RoiAlign", [x, regions, images], mode=mode, coordinate_transformation_mode=way, output_height=3,
                           output_width=4, sampling_ratio=2, spatial_scale=0.9)  # fmt: skip
        self.check("RoiAlign", [x, regions, images], opsets={"": 10}, output_height=2, sampling_ratio=3)
        self.refused("sampling_ratio 0", "RoiAlign", [x, regions, images])
        self.refused("from 1 to 2^16", "RoiAlign", [x, regions, images], output_height=2**62, sampling_ratio=2)
        self.refused("up to 2^16", "RoiAlign", [x, regions, images], sampling_ratio=2**62)

    def test_windows_of_any_form(self):
        x = self.random(2, 4, 7, 8)
        for groups, sets, attributes in (
            (1, 1, {}),
            (2, 2, {"pads": [1, 1, 1, 1], "strides": [2, 1]}),
            (1, 2, {"dilations": [1, 2], "pads": [0, 1, 2, 1]}),
            (4, 1, {}),
        ):
            weight = self.random(8, 4 // groups, 3, 2)
            rows, columns = (
                (7 + attributes.get("pads", [0] * 4)[i] + attributes.get("pads", [0] * 4)[i + 2] + i
                 - attributes.get("dilations", [1, 1])[i] * ((3, 2)[i] - 1) - 1) // attributes.get("strides", [1, 1])[i] + 1
                for i in (0, 1)
            )  # fmt: skip
            offsets = self.random(2, sets * 12, rows, columns) * 2
            mask, bias = self.random(2, sets * 6, rows, columns, seed=1), self.random(8)
            for more in ((), (bias,), (bias, mask), (None, mask)):
                self.check("DeformConv", [x, weight, offsets, *more], opsets={"": 19}, group=groups, offset_group=sets,
                           kernel_shape=[3, 2], atol=1e-4, **attributes)  # fmt: skip
        wrong = [x, self.random(8, 4, 3, 2), self.random(2, 12, 3, 3)]
        self.refused("offsets of (2, 12, 3, 3)", "DeformConv", wrong, opsets={"": 19}, kernel_shape=[3, 2])
        self.refused("groups and", "DeformConv", wrong, opsets={"": 19}, kernel_shape=[3, 2], offset_group=2**62)

    def test_signals_from_half_of_their_frequencies(self):
        half = self.random(2, 6, 3, 2)
        whole = half[..., 0] + 1j * half[..., 1]
        for points in (None, 10, 11, 7, 14):
            signal = np.fft.irfft(whole, n=points, axis=1)[..., None].astype(np.float32)
            inputs = [half] if points is None else [half, (np.array(points),)]
            self.check("DFT", inputs, expected=[signal], axis=1, onesided=1, inverse=1)
        self.refused("takes complex numbers", "DFT", [half[..., :1]], axis=1, onesided=1, inverse=1)

    def test_sequences_of_words(self):
        words = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]])
        attributes = {"ngram_counts": [0, 4], "ngram_indexes": [3, 0, 1, 4, 2, 8, 6], "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
        for mode in ("TF", "IDF", "TFIDF"):
            for least, most, skips in ((1, 1, 0), (2, 2, 0), (1, 2, 1), (2, 2, 5)):
                for x in (words, words[1].astype(np.int32)):
                    self.check("TfIdfVectorizer", [x], mode=mode, min_gram_length=least, max_gram_length=most,
                               max_skip_count=skips, weights=[0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5], **attributes)  # fmt: skip
        good = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 2**62, **attributes}
        for reason, more in (
            ("are from 0 to 2^24", {"ngram_indexes": [2**62, 0, 1, 4, 2, 8, 6]}),
            ("do not divide a pool of 10 words", {"ngram_counts": [0, 2**62]}),
            ("do not divide a pool of 10 words", {"ngram_counts": [0, 3]}),
            ("index 0 is there twice", {"ngram_indexes": [0, 0, 1, 4, 2, 8, 6]}),
            ("there are 7 sequences", {"ngram_indexes": [0]}),
            ("strings are not taken", {"pool_strings": ["a"], "pool_int64s": None}),
        ):
            self.refused(reason, "TfIdfVectorizer", [words], **{**good, **more})

    def test_bands_of_hearing(self):
        for bands, points, rate, low, high in ((8, 16, 8192, 0.0, 4096.0), (40, 512, 16000, 20.0, 8000.0), (60, 64, 8000, 0.0, 3999.0)):
            numbers = [(np.array(one),) for one in (bands, points, rate)] + [(np.float32(one),) for one in (low, high)]
            self.check("MelWeightMatrix", numbers)
        numbers = [(np.array(one),) for one in (2**62, 2**62, 8000)] + [(np.float32(one),) for one in (0, 4000)]
        self.refused("to 2^20", "MelWeightMatrix", numbers)


if __name__ == "__main__":
    unittest.main()
