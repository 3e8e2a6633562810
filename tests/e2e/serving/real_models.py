"""Models that packages carry, in a folder as a server of models wants it, and a request for each.

Their sizes have the names that their makers gave them; SIZES says what these may be.
"""

import importlib.util
import pathlib
import shutil
import sys

import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent.parent.parent / "examples"))

SIZES = "*=1:16,tokens=1:128,sequence=576,?=48,p2o.DynamicDimension.1=160"


def packaged(package, path):
    return lambda to: shutil.copy(pathlib.Path(importlib.util.find_spec(package).origin).parent / path, to)


def save_minilm(to):
    import minilm_model

    minilm_model.write(str(to))


SAVED = {
    "silero_vad": packaged("silero_vad", "data/silero_vad_16k_op15.onnx"),
    "magika": packaged("magika", "models/standard_v3_3/model.onnx"),
    "rapidocr": packaged("rapidocr_onnxruntime", "models/ch_PP-OCRv4_rec_infer.onnx"),
    "minilm": save_minilm,
}


def request(name):
    """The inputs of one, by name."""
    draw = np.random.default_rng(3)
    if name == "silero_vad":
        sound = 0.1 * draw.standard_normal((1, 576)).astype(np.float32)
        return {"input": sound, "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000)}
    if name == "magika":
        return {"bytes": draw.integers(0, 257, (1, 2048)).astype(np.int32)}
    if name == "rapidocr":
        return {"x": draw.uniform(-1, 1, (1, 3, 48, 160)).astype(np.float32)}
    ids = draw.integers(1000, 30522, (1, 32))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def fill(folder, names=tuple(SAVED)):
    for name in names:
        path = pathlib.Path(folder, name, "1", "model.onnx")
        path.parent.mkdir(parents=True)
        SAVED[name](path)
