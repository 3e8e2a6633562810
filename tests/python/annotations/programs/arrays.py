"""Arrays and functions of them, as a careful numpy user annotates them; and mistakes that a type checker finds.

types_test.py checks it with mypy --strict and pyright, and runs it. What is ignored is a mistake: one that went unseen
would be an ignore too many, which both report.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import pathlib
import tempfile
from typing import Callable, Dict, Tuple

import kiln
import kiln.numpy as knp
import numpy as np
from kiln.typing import ArrayLike, Axis, DTypeLike
from numpy.typing import NDArray
from typing_extensions import assert_type

Weights = Dict[str, kiln.Array]


def normed(x: ArrayLike, axis: Axis = None, dtype: DTypeLike = "float32") -> kiln.Array:
    floats = kiln.array(x, dtype)
    return floats / kiln.sqrt((floats**2).sum(axis, keepdims=True))


def loss(p: Weights, x: kiln.Array, y: kiln.Array) -> kiln.Array:
    return ((kiln.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()


@kiln.jit
def train(p: Weights, x: kiln.Array, y: kiln.Array) -> Tuple[Weights, kiln.Array]:
    value, slopes = kiln.value_and_grad(loss)(p, x, y)
    assert_type(value, kiln.Array)
    return {name: p[name] - 0.5 * slopes[name] for name in p}, value


@kiln.jit(static_argnames="how")
def reduced(x: kiln.Array, how: str) -> kiln.Array:
    return x.max() if how == "max" else x.sum()


class Counter:
    """A method may be jitted, too."""

    @kiln.jit(static_argnums=0)
    def doubled(self, x: kiln.Array) -> kiln.Array:
        return 2 * x


def operations(rows: NDArray[np.float32]) -> None:
    x = kiln.array(rows)
    assert_type(x, kiln.Array)
    assert_type(x + 1, kiln.Array)
    assert_type(2.0 * x - x[0], kiln.Array)
    assert_type(x @ x.T, kiln.Array)
    assert_type(-x == x, kiln.Array)
    assert_type(x.sum(axis=0).reshape(-1), kiln.Array)
    assert_type(kiln.where(x > 0, x, 0.0), kiln.Array)
    assert_type(kiln.concatenate([x, x]), kiln.Array)
    assert_type(knp.sort(x, descending=True), kiln.Array)
    assert_type(knp.top_k(x, 1), Tuple[kiln.Array, kiln.Array])
    assert_type(knp.linspace(0, 1, 5, dtype=np.float32), kiln.Array)
    assert_type(knp.random.normal(knp.random.key(7), (2, 3)), kiln.Array)
    assert_type(knp.linalg.inv(x @ x.T), kiln.Array)
    assert_type(float(x.mean()), float)
    assert_type(x.client, kiln.Client)
    assert_type(x.dtype, kiln.DType)
    assert_type(x.shape, Tuple[int, ...])
    assert_type(kiln.float32, kiln.DType)
    assert_type(knp.pi, float)
    found: NDArray[np.float32] = x.numpy()
    assert found.shape == x.shape


def mistakes() -> None:
    """Which no program would survive; it is not called."""
    x = kiln.array([1.0])
    x.colour  # type: ignore
    kiln.exp(x, axis=1)  # type: ignore
    kiln.exp("text", 1)  # type: ignore
    knp.sort(x, reverse=True)  # type: ignore
    kiln.softmax()  # type: ignore
    x["a":"b"].shape.mean()  # type: ignore
    kiln.zeros((2, 3), dtype=[1])  # type: ignore
    kiln.jit(3)  # type: ignore
    knp.fft  # type: ignore
    text: str = kiln.ones(3)  # type: ignore
    print(text)


def main(address: str) -> float:
    with kiln.connect(address) as client:
        assert_type(client, kiln.Client)
        operations(np.array([[3, 4, 0], [0, 0, 2]], np.float32))
        p: Weights = {"w": kiln.zeros(3), "b": kiln.zeros(())}
        rows = normed([[1, 2, 2], [0, 3, 4]], -1, np.float64)
        goal = np.array([0.5, -0.5])
        p, value = train(p, rows, goal)
        for _ in range(20):
            p, value = train(p, rows, goal)
        assert_type(value, kiln.Array)
        assert_type(reduced(rows, how="max"), kiln.Array)
        assert float(Counter().doubled(kiln.array(2.0))) == 4
        each: Callable[..., kiln.Array] = kiln.vmap(lambda row: kiln.sqrt((row**2).sum()))
        assert np.allclose(each(rows), 1)
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "weights.npz"
            kiln.save(path, p)
            assert_type(kiln.load(path), Dict[str, kiln.Array])
        return float(value)
