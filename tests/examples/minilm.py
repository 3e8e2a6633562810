"""MiniLM once more, in numpy and float64: what examples/sentences.py is measured against.

The file is read here too, not through tinygrad: eight bytes of length, JSON that says
where each tensor lies, the tensors.
"""

import json

import numpy as np
from scipy.special import erf

HEADS = 12


def read_safetensors(path):
    blob = path.read_bytes()
    begin = 8 + int.from_bytes(blob[:8], "little")
    tensors = {}
    for name, row in json.loads(blob[8:begin]).items():
        if row.get("dtype") == "F32":
            first, last = row["data_offsets"]
            values = np.frombuffer(blob, np.float32, (last - first) // 4, begin + first)
            tensors[name] = values.reshape(row["shape"]).astype(np.float64)
    return tensors


class Reference:
    def __init__(self, path):
        self.tensors = read_safetensors(path)

    def dense(self, name, x):
        return x @ self.tensors[name + ".weight"].T + self.tensors[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * self.tensors[name + ".weight"] + self.tensors[name + ".bias"]

    def heads(self, name, x):
        return self.dense(name, x).reshape(len(x), HEADS, -1).transpose(1, 0, 2)

    def layer(self, name, x):
        query, key, value = (self.heads("%s.attention.self.%s" % (name, part), x) for part in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1])
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        seen = (weights @ value).transpose(1, 0, 2).reshape(x.shape)
        x = self.norm(name + ".attention.output.LayerNorm", x + self.dense(name + ".attention.output.dense", seen))
        inner = self.dense(name + ".intermediate.dense", x)
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        return self.norm(name + ".output.LayerNorm", x + self.dense(name + ".output.dense", inner))

    def embedding(self, tokens):
        """Of one sentence, alone: nothing is padded, nothing masked."""
        table = "embeddings.%s_embeddings.weight"
        x = self.tensors[table % "word"][tokens] + self.tensors[table % "position"][: len(tokens)]
        x = self.norm("embeddings.LayerNorm", x + self.tensors[table % "token_type"][0])
        for number in range(6):
            x = self.layer("encoder.layer.%d" % number, x)
        x = x.mean(0)
        return x / np.linalg.norm(x)
