"""Tracing: a function runs once on values that stand for its arguments, and what it does with them is a graph.

A Trace is a Graph that also takes what the function brings along: arrays on devices become
parameters of their own, so do large numpy arrays, which are sent once; a State is read and
set here, and written when the program has run. stand_ins() and splice() are for what works on
a function's own graph: gradients and batches.
"""

from __future__ import annotations

import threading
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from kiln import arrays
from kiln.dtypes import dtype as dtype_of
from kiln.errors import GraphError, InvalidArgument
from kiln.functional import names, standard
from kiln.functional.held import Held, made
from kiln.functional.leaves import NUMBERS, spec_of, type_of
from kiln.graph import Graph
from kiln.tensor import Tensor, Weak
from kiln.v1 import graph_pb2
from kiln.value import Value

# Bytes of a numpy array above which it is no part of the graph.
LARGE = 1024


class Tracer(Tensor):
    """A tensor of a traced function, in which numpy's functions are Kiln's."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        ours = names.for_ufunc(ufunc, method, named)
        if ours is None:
            raise TypeError("numpy.%s is of arrays, and Kiln has none of that name for a traced value" % ufunc.__name__)
        return ours(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        ours = names.for_function(function, args, kwargs, traced=True)
        return super().__array_function__(function, types, args, kwargs) if ours is None else ours(*args, **kwargs)

    def numpy(self) -> Any:
        return self.__array__()

    item = tolist = numpy

    # -- of the array API standard

    def __array_namespace__(self, *, api_version: Optional[str] = None) -> Any:
        return standard.namespace(api_version)

    @property
    def device(self) -> str:
        return self.graph.device  # type: ignore[attr-defined,no-any-return]

    def to_device(self, device: str, /, *, stream: Any = None) -> "Tracer":
        """Itself: a traced function is on one device. InvalidArgument for another."""
        if device != self.device:
            raise InvalidArgument("a function on %s has no values on %s" % (self.device, device), code="BAD_ARGUMENT",
                                  remedy="move what it is given, or what it returns")  # fmt: skip
        return self


class WeakTracer(Weak, Tracer):
    """The same of a Python number."""

    __slots__ = ()


class Followed:
    """A State within a trace: its parameters, and what they are now."""

    def __init__(self, state: Any, parameters: List[Tensor]):
        self.state, self.parameters, self.now = state, parameters, list(parameters)


class Mark(NamedTuple):
    """What stand_ins() made: since then, nodes may depend on them."""

    values: List[Tensor]
    states: Dict[int, List[Tensor]]


class Trace(Graph):
    """One thread's, for as long as the function runs."""

    _tensor, _weak = Tracer, WeakTracer

    def __init__(self, client: Any, device: str, name: str):
        super().__init__()
        self.client, self.device, self.name = client, device, name
        self.open = True
        self.captured: Dict[Any, Tuple[Held, Tensor]] = {}
        self.states: Dict[int, Followed] = {}
        self._loose: Set[int] = set()  # slots of stand-ins, which no program has

    # -- what comes in

    def leaf(self, spec: Any) -> Tensor:
        """A parameter for what has this spec."""
        kind, shape, weak = type_of(spec)
        made = self.param("", shape, kind)
        return self.tensor(made.node, kind, shape, weak=weak)

    def capture(self, array: Held) -> Tensor:
        """An array that the function brings along, as a parameter."""
        return self._brought(id(array), array)

    def _brought(self, key: Any, array: Held) -> Tensor:
        if key not in self.captured:
            self._is_ours(array, "an array")
            self.captured[key] = (array, self.leaf(array.spec))
        return self.captured[key][1]

    def constant(self, value: Any, dtype: Any = None) -> Tensor:
        array = arrays.host_array(value, None if dtype is None else dtype_of(dtype))
        if array.nbytes <= LARGE:
            return super().constant(value, dtype)
        if dtype is not None:
            array = array.astype(dtype_of(dtype).numpy, copy=False)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self.captured:
            self._brought(key, made(self.client, self.client.buffer(array, device=self.device)))
        return self.captured[key][1]

    def lift(self, leaf: Any, where: str = "a value") -> Tensor:
        """Any leaf as a tensor of this trace."""
        if isinstance(leaf, Value):
            if leaf.graph is not self:
                raise self.stranger(where, leaf)
            return leaf  # type: ignore[return-value]
        if isinstance(leaf, Held):
            return self.capture(leaf)
        spec = spec_of(leaf)
        if spec in NUMBERS:
            scalar = self.scalar(leaf, NUMBERS[spec])
            return self.tensor(scalar.node, scalar.dtype, (), weak=True)
        if isinstance(leaf, (np.ndarray, np.generic)):
            return self.constant(leaf)
        raise GraphError("%s: %s is a %s, and no array or number" % (self.name, where, type(leaf).__name__),
                         code="BAD_ARGUMENT")  # fmt: skip

    def follow(self, state: Any) -> Followed:
        """A State, from the first time that the function touches it."""
        if id(state) not in self.states:
            self._is_ours(state, "a State")
            self.states[id(state)] = Followed(state, [self.leaf(spec) for spec in state.specs])
        return self.states[id(state)]

    # -- what must not come in

    def _is_ours(self, found: Any, what: str) -> None:
        if found.client is not self.client:
            raise GraphError("%s uses %s of another client's" % (self.name, what), code="BAD_ARGUMENT")

    def stranger(self, function: str, tensor: Value) -> GraphError:
        if isinstance(tensor.graph, Trace) and not tensor.graph.open:
            return left(tensor.graph.name)
        return super().stranger(function, tensor)

    def node(self, op: Any, sources: Sequence[int] = (), **arg: Any) -> int:
        if not self.open:
            raise left(self.name)
        return super().node(op, sources, **arg)

    # -- a function's own graph

    def stand_ins(self, values: Sequence[Tensor]) -> Mark:
        """Parameters in the place of values, until splice() puts these back."""
        taken = []
        for value in values:
            fresh = self.param("", value.shape, value.dtype)
            self._loose.add(fresh.slot)
            taken.append(self.tensor(fresh.node, value.dtype, value.shape, weak=value.weak))
        return Mark(taken, {key: list(followed.now) for key, followed in self.states.items()})

    def changed(self, mark: Mark) -> List[Tuple[Followed, int]]:
        """The leaves of states that were set since."""
        return [(followed, at) for key, followed in self.states.items()
                for at, (was, now) in enumerate(zip(mark.states.get(key, followed.parameters), followed.now))
                if was is not now]  # fmt: skip

    def message(self, results: Iterable[int]) -> graph_pb2.Graph:
        """The graph of these nodes."""
        kept, self._outputs = self._outputs, list(results)
        try:
            return self.build()
        finally:
            self._outputs = kept

    def splice(self, message: graph_pb2.Graph, places: Dict[int, int]) -> List[int]:
        """Puts a graph into this one, with nodes for the parameters of some slots; its results' nodes."""
        number: List[int] = []
        for uop in message.nodes[:-1]:
            if uop.op == graph_pb2.PARAM and uop.buffer.slot in places and uop.buffer.addrspace != graph_pb2.ALU:
                number.append(places[uop.buffer.slot])
                continue
            copied = graph_pb2.UOp()
            copied.CopyFrom(uop)
            copied.src[:] = [number[source] for source in uop.src]
            number.append(self._intern(copied))
        return [number[source] for source in message.nodes[-1].src]

    def check_whole(self, message: graph_pb2.Graph) -> None:
        """GraphError if a stand-in is left in a program."""
        for uop in message.nodes:
            if uop.op == graph_pb2.PARAM and uop.buffer.slot in self._loose:
                raise left("a function that is differentiated or mapped in %s" % self.name)

    # -- the thread's

    def __enter__(self) -> "Trace":
        _stack().append(self)
        return self

    def __exit__(self, *error: Any) -> None:
        _stack().pop()
        self.open = False


def left(name: str) -> GraphError:
    """A value that outlived its trace."""
    return GraphError("a traced value has left %s, and is used after it" % name, code="BAD_ARGUMENT",
                      remedy="return it from the function; a list or an attribute outside keeps no array")  # fmt: skip


_threads = threading.local()


def _stack() -> List[Trace]:
    if not hasattr(_threads, "stack"):
        _threads.stack = []
    return _threads.stack


def active() -> Optional[Trace]:
    """The trace that this thread is in, or None."""
    stack = getattr(_threads, "stack", None)
    return stack[-1] if stack else None
