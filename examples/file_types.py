"""What is in a file? Magika looks at its first and last bytes, whatever its name; a table.

    ./dev run & python examples/file_types.py [FILE…]       # KILN_ADDR: another server than localhost:7437
"""
import importlib.util, json, os, pathlib, sys

os.environ.setdefault("DEV", "KILN")
import kiln.tinygrad
import numpy as np
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

MODEL = pathlib.Path(importlib.util.find_spec("magika").origin).parent / "models" / "standard_v3_3"
ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = {"README.md": "markdown", "dev": "shell", "LICENSE": "txt", "WORKSPACE": "bazel",
         "base/graph/hash_cases.cc": "cpp", "tests/client/cli_test.sh": "shell", "examples/file_types.py": "python",
         "tests/conformance/hash_vectors.json": "json", "client/python/pyproject.toml": "toml",
         "proto/kiln/v1/graph.proto": "proto"}  # what a reader says
PADDING = 256  # stands for no byte

def features(path, config):
    """The bytes at both ends, blanks around them taken off: what the model was trained on."""
    with open(path, "rb") as file:
        first = file.read(config["block_size"]).lstrip()[: config["beg_size"]]
        file.seek(-min(config["block_size"], os.path.getsize(path)), os.SEEK_END)
        last = file.read().rstrip()[-config["end_size"]:]
    row = np.full(config["beg_size"] + config["end_size"], PADDING, np.int32)
    row[: len(first)] = list(first)
    row[len(row) - len(last):] = list(last)
    return row

def classify(paths):
    """A row of probabilities for each file, and the labels of the columns."""
    config = json.loads((MODEL / "config.min.json").read_text())
    rows = np.stack([features(path, config) for path in paths])
    scores = OnnxRunner(MODEL / "model.onnx")({"bytes": Tensor(rows)})["target_label"].numpy()
    return scores, config["target_labels_space"]

def main(paths=()):
    paths = paths or [ROOT / name for name in FILES]
    scores, labels = classify(paths)
    for path, row in zip(paths, scores):
        second, best = np.argsort(row)[-2:]
        print("%-20s %-10s %5.3f   then %-10s %5.3f" % (pathlib.Path(path).name, labels[best], row[best],
                                                        labels[second], row[second]))
    return paths, [labels[n] for n in scores.argmax(1)], scores

if __name__ == "__main__": main(sys.argv[1:])
