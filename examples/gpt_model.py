"""Writes a small GPT that keeps its state on the device, as examples/gpt.py wants it: gpt_model.py FOLDER"""
import pathlib, sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

LAYERS, HEADS, DIM, CAPACITY, VOCABULARY = 2, 4, 16, 64, 96
WIDTH = HEADS * DIM

def weights(seed=7):
    draw = np.random.default_rng(seed)
    shapes = {"tokens": (VOCABULARY, WIDTH), "places": (CAPACITY, WIDTH)}
    one = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
    for n in range(LAYERS): shapes |= {name + str(n): shape for name, shape in one.items()}
    return {name: (draw.standard_normal(shape) / shape[0] ** 0.5).astype(np.float32) for name, shape in shapes.items()}

def model(w, batching=""):
    """One step as ONNX: token -> next. Beside it each key and value cache, and how far the text has come, go around."""
    nodes, constants = [], dict(w, gain=np.ones(WIDTH, np.float32))
    def op(kind, *sources, to="", **attributes):
        given = {x if isinstance(x, str) else "c%d.%d" % (len(nodes), n): x for n, x in enumerate(sources)}
        constants.update({name: np.asarray(source) for name, source in given.items() if not isinstance(source, str)})
        nodes.append(helper.make_node(kind, list(given), [to or "v%d" % len(nodes)], **attributes))
        return nodes[-1].output[0]
    def layer_norm(x): return op("LayerNormalization", x, "gain")
    places = np.arange(CAPACITY).reshape(1, 1, -1, 1)
    here = op("Equal", places, op("Reshape", "position", [-1, 1, 1, 1]))
    later = op("Greater", places.reshape(1, 1, 1, -1), op("Reshape", "position", [-1, 1, 1, 1]))
    x = op("Add", op("Gather", "tokens", "token"), op("Gather", "places", "position"))
    for layer in range(LAYERS):
        qkv = op("MatMul", layer_norm(x), "qkv%d" % layer)
        part = lambda n: op("Slice", qkv, [n * WIDTH], [n * WIDTH + WIDTH], [1])
        q, k, v = (op("Reshape", part(n), [-1, HEADS, 1, DIM]) for n in range(3))
        k = op("Where", here, k, "k%d" % layer, to="next_k%d" % layer)
        v = op("Where", here, v, "v_%d" % layer, to="next_v_%d" % layer)
        scores = op("Mul", op("MatMul", q, op("Transpose", k, perm=[0, 1, 3, 2])), np.float32(DIM**-0.5))
        share = op("Softmax", op("Where", later, np.float32(-1e9), scores), axis=-1)
        mixed = op("Reshape", op("MatMul", share, v), [-1, WIDTH])
        x = op("Add", x, op("MatMul", mixed, "out%d" % layer))
        x = op("Add", x, op("MatMul", op("Relu", op("MatMul", layer_norm(x), "up%d" % layer)), "down%d" % layer))
    op("ArgMax", op("MatMul", layer_norm(x), op("Transpose", "tokens")), axis=-1, keepdims=0, to="next")
    op("Add", "position", np.int64(1), to="next_position")
    caches = [name % layer for layer in range(LAYERS) for name in ("k%d", "v_%d")]
    def ids(name): return helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"])
    def cache(name): return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", HEADS, CAPACITY, DIM])
    def state(way): return [ids(way + "position"), *(cache(way + name) for name in caches)]
    graph = helper.make_graph(nodes, "gpt", [ids("token"), *state("")], [ids("next"), *state("next_")],
                              [numpy_helper.from_array(value, name) for name, value in constants.items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    states = "".join('state { input_name: "%s" output_name: "next_%s" }\n' % (n, n) for n in ["position"] + caches)
    config = "sequence_batching {\n%s%s}\n" % (batching, states)
    return {"1/model.onnx": made.SerializeToString(), "config.pbtxt": config.encode()}

def write(folder, files):
    (pathlib.Path(folder) / "gpt" / "1").mkdir(parents=True)
    for name, content in files.items(): (pathlib.Path(folder) / "gpt" / name).write_bytes(content)

if __name__ == "__main__": write(sys.argv[1], model(weights()))
