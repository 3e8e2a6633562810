"""Graphs, programs and buffers, with the types that a checker sees: of a Tensor every function gives a Tensor."""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import asyncio
from typing import Optional, Tuple

import kiln
import kiln.aio
import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type


def layer(graph: kiln.Graph) -> kiln.Tensor:
    x, w = graph.param("x", (2, 3)), graph.param("w", (3, 3), np.float32)
    assert_type(x, kiln.Tensor)
    assert_type(kiln.exp(x), kiln.Tensor)
    assert_type(kiln.add(1, x), kiln.Tensor)
    assert_type(kiln.maximum(x, 0), kiln.Tensor)
    assert_type(kiln.where(x > 0, 1.0, 0.0), kiln.Tensor)
    assert_type(kiln.stack([x, x]), kiln.Tensor)
    assert_type(x.sum(axis=0), kiln.Tensor)
    assert_type(x[0], kiln.Tensor)
    return kiln.softmax(kiln.layer_norm(x) @ w, axis=-1)


def compiled(client: kiln.Client) -> kiln.Program:
    graph = kiln.Graph()
    result = layer(graph)
    graph.output(result, result.sum(axis=1).tag("sums"))
    return client.compile(graph, constants=["w"], no_contraction=True)


def failures(program: kiln.Program, weights: kiln.Buffer) -> Optional[str]:
    try:
        program(np.ones((3, 2), np.float32), weights)
    except kiln.ShapeError as error:
        assert_type(error.code, Optional[str])
        return error.code
    return ""


async def awaited(address: str) -> float:
    async with await kiln.aio.connect(address) as client:
        buffer = await client.buffer(np.ones(3, np.float32))
        assert_type(buffer, kiln.aio.Buffer)
        found = await buffer.numpy()
        return float(found.sum())


def mistakes(client: kiln.Client) -> None:
    """Which no program would survive; it is not called."""
    graph = kiln.Graph()
    graph.param(("a",), (2, 3))  # type: ignore
    graph.outputs  # type: ignore
    client.compile(graph, constants=3)  # type: ignore
    client.buffer([1.0]).numpy(axis=0)  # type: ignore
    kiln.Graph(1)  # type: ignore
    kiln.connect(7437)  # type: ignore


def main(address: str) -> Tuple[Optional[str], float]:
    with kiln.connect(address, lease=30) as client:
        program = compiled(client)
        weights = client.buffer(np.eye(3, dtype=np.float32))
        assert_type(weights, kiln.Buffer)
        rows: NDArray[np.float32]
        rows, sums = program(x=np.ones((2, 3), np.float32), w=weights)
        assert np.allclose(rows.sum(axis=1), sums)
        assert_type(weights[1].shape, Tuple[int, ...])
        return failures(program, weights), asyncio.run(awaited(address))
