"""What an installed package is tried with, by the Python that has it: `python -I wheel_use.py ADDRESS [PLACE]`.

With PLACE, kiln is to come from there. Prints what was tried.
"""

import asyncio
import pathlib
import sys

if len(sys.argv) > 2:
    sys.path.insert(0, sys.argv[2])

import kiln
import kiln.aio
import kiln.v1
import numpy as np
from kiln.v1 import graph_pb2

for module in (kiln, kiln.v1):
    if len(sys.argv) > 2:
        assert pathlib.Path(module.__file__).is_relative_to(sys.argv[2]), module.__file__


def loss(w, x, y):
    return ((kiln.tanh(x @ w) - y) ** 2).mean()


async def awaited():
    async with await kiln.aio.connect(sys.argv[1]) as client:
        made = await asyncio.gather(*(client.buffer(np.full(3, n, np.float32)) for n in range(8)))
        return [int((await one.numpy()).sum()) for one in made]


with kiln.connect(sys.argv[1]) as client:
    x = np.linspace(-1, 1, 12).reshape(4, 3)
    value, slope = kiln.jit(kiln.value_and_grad(loss))(kiln.zeros(3), x, np.ones(4))
    assert abs(float(value) - 1) < 1e-12 and np.allclose(slope.numpy(), -2 * x.mean(0)), (value, slope)
    assert kiln.numpy.linalg.norm(kiln.array([3.0, 4.0])).item() == 5
    graph = kiln.Graph()
    v = graph.param("v", (3,), "float32")
    graph.output((v * 2).sum())
    message = graph.build()
    assert graph_pb2.Graph.FromString(message.SerializeToString()) == message
    assert graph_pb2.Op.Name(graph_pb2.ADD) == "ADD"
    program = client.compile(graph)
    assert program.hash == kiln.graph_hash(message) and program(np.float32([1, 2, 3])) == 12
    try:
        program(np.ones(2, np.float32))
    except kiln.ShapeError as error:
        assert error.code == "SHAPE_MISMATCH"
assert asyncio.run(awaited()) == [3 * n for n in range(8)]
print("jit, grad, numpy, graph, program, errors, aio")
