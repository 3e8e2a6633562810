"""What every function of the builder works on: a node of a graph with its dtype and shape.

Functions make nodes with `emit`, and never compute. The classes of tensor.py and
graph.py stand on this file, and not it on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence, Tuple

from kiln.dims import Dim, Size
from kiln.dtypes import DType, integer
from kiln.errors import PlaceError, ShapeError

if TYPE_CHECKING:
    from kiln.graph import Graph
    from kiln.tensor import Tensor

Shape = Tuple[Size, ...]


class Value:
    """A handle of a node: `graph`, `node` (its index there), `dtype`, `shape`."""

    __slots__ = ("graph", "node", "dtype", "shape")
    weak = False  # whether it stands for a Python number, whose dtype yields to others'

    def __init__(self, graph: "Graph", node: int, dtype: DType, shape: Shape):
        self.graph, self.node, self.dtype, self.shape = graph, node, dtype, shape

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def size(self) -> Size:
        """Elements; a Dim where a size is symbolic."""
        return count(self.shape)


def count(shape: Sequence[Size]) -> Size:
    total: Size = 1
    for size in shape:
        total = total * size
    return total


def emit(op: str, sources: Sequence[Value], dtype: DType, shape: Shape, extra: Sequence[int] = (), **arg: Any) -> "Tensor":
    """The node `op` of these sources, then the nodes `extra`; `arg` is UOp's oneof field."""
    graph = sources[0].graph
    return graph.tensor(graph.node(op, [*(source.node for source in sources), *extra], **arg), dtype, shape)


def axis_of(function: str, axis: Any, rank: int) -> int:
    """An axis counted from 0; negative ones count from the last. PlaceError where there is none, as numpy's AxisError."""
    wrapped = integer(axis, "%s: an axis" % function)
    wrapped += rank if wrapped < 0 else 0
    if not 0 <= wrapped < rank:
        raise PlaceError("%s: no axis %s in a tensor of rank %d" % (function, axis, rank), code="BAD_ARGUMENT")
    return wrapped


def axes_of(function: str, axis: Any, rank: int) -> Tuple[int, ...]:
    """Axes in ascending order; None means all, as in numpy."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = sorted(axis_of(function, one, rank) for one in given)
    if len(set(axes)) != len(axes):
        raise ShapeError("%s: an axis is there twice in %s" % (function, axis), code="BAD_ARGUMENT")
    return tuple(axes)


def shape_of(shape: Any) -> Shape:
    """A shape from a size or a sequence of sizes."""
    given = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(size if isinstance(size, Dim) else integer(size, "a size") for size in given)


def broadcast(function: str, *shapes: Shape) -> Shape:
    """The shape that all broadcast to, aligned at the last axis. ShapeError where there is none."""
    result: Tuple[Size, ...] = ()
    for shape in shapes:
        longer, shorter = (result, shape) if len(result) >= len(shape) else (shape, result)
        skip = len(longer) - len(shorter)
        sizes = list(longer[:skip])
        for a, b in zip(longer[skip:], shorter):
            if a != b and a != 1 and b != 1:
                raise ShapeError("%s: %s do not broadcast" % (function, " and ".join(map(str, shapes))),
                                 remedy="axes, aligned at the last, must be equal or 1")  # fmt: skip
            sizes.append(b if a == 1 else a)
        result = tuple(sizes)
    return result
