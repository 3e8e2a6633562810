"""Graphs made of messages, for tests that do not want the builder."""

from kiln.v1 import dtype_pb2, graph_pb2, kernel_service_pb2


def elementwise(op, dtype="FLOAT32", shape=(4,), sources=2):
    """TUPLE(op(x, y)) with parameters x in slot 0, y in slot 1."""
    number = dtype_pb2.DType.Value(dtype)
    graph = graph_pb2.Graph()
    nodes = graph.nodes
    for size in shape:
        nodes.add(op=graph_pb2.CONST, constant=graph_pb2.ConstArg(dtype=dtype_pb2.WEAKINT, i=size))
    nodes.add(op=graph_pb2.STACK, src=range(len(shape)))
    place = len(shape)
    for slot in range(sources):
        nodes.add(op=graph_pb2.PARAM, src=[place],
                  buffer=graph_pb2.BufferArg(slot=slot, dtype=number, name="xyz"[slot]))  # fmt: skip
    nodes.add(op=graph_pb2.Op.Value(op), src=range(place + 1, place + 1 + sources))
    nodes.add(op=graph_pb2.TUPLE, src=[len(nodes) - 1])
    return graph


def update(shape=(4,)):
    """TUPLE(AFTER(x, STORE(x, x + y))): x in slot 0 is updated in place and is the result."""
    graph = elementwise("ADD", shape=shape)
    del graph.nodes[-1]
    x, total = len(shape) + 1, len(graph.nodes) - 1
    graph.nodes.add(op=graph_pb2.STORE, src=[x, total])
    graph.nodes.add(op=graph_pb2.AFTER, src=[x, total + 1])
    graph.nodes.add(op=graph_pb2.TUPLE, src=[total + 2])
    return graph


def of_zeros(compiled):
    """The request to execute a program of two vectors of four numbers, all zeros, with its result by value."""
    request = kernel_service_pb2.ExecuteRequest(graph_hash=compiled.graph_hash, result_mode=kernel_service_pb2.RESULT_INLINE)
    for slot in range(2):
        tensor = request.arguments.add(slot=slot).tensor
        tensor.dtype = compiled.signature.parameters[slot].dtype
        tensor.shape.append(4)
        tensor.data = bytes(16)
    return request
