"""A model whose graph clients read from files: its weights are more elements than a graph has as its own."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Of two dtypes.
WEIGHTS = ((np.arange(4 * 33) % 5).reshape(4, 33) - 2).astype(np.float16)
BIAS = np.arange(33, dtype=np.float32) - 16


def write(path):
    """The sum of each row of relu(x @ w + b), of two rows."""
    nodes = [
        helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "wide"], ["product"]),
        helper.make_node("Add", ["product", "b"], ["shifted"]),
        helper.make_node("Relu", ["shifted"], ["y"]),
        helper.make_node("ReduceSum", ["y", "axes"], ["total"], keepdims=0),
    ]
    graph = helper.make_graph(
        nodes, "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("total", TensorProto.FLOAT, [2])],
        [numpy_helper.from_array(WEIGHTS, "w"), numpy_helper.from_array(BIAS, "b"),
         numpy_helper.from_array(np.array([1]), "axes")],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))
