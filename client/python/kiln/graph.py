"""Building a UOp graph on the client.

    graph = kiln.Graph()
    x = graph.param("x", (32, 64), "float32")
    w = graph.param("w", (64, 10), "float32")
    graph.output(kiln.softmax(x @ w))
    program = client.compile(graph)

Tensors have numpy's operators, methods and dtypes (tensor.py); each becomes nodes of
tinyspec's ops, and nothing is computed here. Equal nodes are one node. A mistake
raises where it is made: ShapeError, DTypeError, GraphError.

Below that, Graph.node makes any node of any op, and message_of_nodes a whole graph.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

from kiln import arrays, promotion, sharding
from kiln.dims import Dim, Size, Variable
from kiln.dtypes import BY_NUMBER, DType, chosen, dtype as dtype_of, int32, int64, integer, uint8, weakint
from kiln.elementwise import astype, bitcast
from kiln.errors import DTypeError, GraphError, ShapeError
from kiln.movement import broadcast_to, reshape, shrink
from kiln.tensor import Tensor, Weak
from kiln.v1 import graph_pb2
from kiln.value import Shape, Value, shape_of

# Ops through which a tensor is a view of a parameter, and so may be stored to.
_VIEWS = {graph_pb2.Op.Value(name) for name in ("RESHAPE", "PERMUTE", "SHRINK", "FLIP", "BITCAST")}

Op = Union[str, int]


def op_number(op: Op) -> Any:
    """The number of an op given by name or number. GraphError (UNKNOWN_OP) for no name."""
    if isinstance(op, int):
        return op
    try:
        return graph_pb2.Op.Value(op)
    except ValueError:
        raise GraphError("there is no op %r" % op, code="UNKNOWN_OP") from None


def message_of_nodes(nodes: Iterable[Union[graph_pb2.UOp, Tuple]], dialect: Any = 0) -> graph_pb2.Graph:
    """A kiln.v1.Graph from its nodes in topological order, the root last.

    A node is a UOp, or (op, sources), or (op, sources, {form: arg}) with UOp's oneof
    fields, such as ("REDUCE", [3], {"reduce": ReduceArg(...)}).
    """
    graph = graph_pb2.Graph(dialect=dialect)
    add = graph.nodes.add
    for node in nodes:
        if isinstance(node, graph_pb2.UOp):
            graph.nodes.append(node)
        else:
            add(op=op_number(node[0]), src=node[1], **(node[2] if len(node) > 2 else {}))
    return graph


class Graph:
    """A graph under construction. One thread at a time."""

    _tensor, _weak = Tensor, Weak

    def __init__(self) -> None:
        self._nodes: List[graph_pb2.UOp] = []
        self._interned: Dict[bytes, int] = {}
        self._shapes: Dict[Tuple[int, ...], int] = {}  # shape_node's: most shapes come again and again
        self._slots: Dict[int, Tuple[DType, Shape]] = {}
        # A call gives arguments by name, so a name is of one slot, and a slot has one.
        self._named: Dict[str, int] = {}
        self._outputs: List[int] = []

    # -- leaves

    def param(self, name: str, shape: Any, dtype: Any = "float32", *, slot: Optional[int] = None,
              devices: Sequence[str] = (), axis: Optional[int] = 0) -> Tensor:
        """An argument of the program, in the next free slot unless one is given.

        On several `devices` each has an equal share of the first axis or, with axis=None,
        the whole (kiln.sharding). Raises DTypeError for a dtype that is not stored,
        ShapeError if the slot is another parameter already, GraphError if the name is.
        """
        kind, sizes = chosen("param", dtype), shape_of(shape)
        if kind.itemsize == 0:
            raise DTypeError("param: %s is no dtype a parameter can have" % kind.name, code="BAD_ARGUMENT")
        if any(isinstance(size, int) and size < 0 for size in sizes):
            raise ShapeError("param: %s has a negative size" % (sizes,))
        names = sharding.names_of("param", devices) if devices else ()
        rows = len(names) > 1 and axis is None
        if len(names) > 1 and not rows:
            if axis != 0 or not sizes:
                raise ShapeError("param: a parameter is split along its first axis", code="UNSUPPORTED_SHARD",
                                 remedy="move the axis")  # fmt: skip
            sharding.equal_shares("param", sizes[0], len(names))
        held = (len(names), *sizes) if rows else sizes
        slot = self._take_slot(slot, kind, held, name)
        arg = graph_pb2.BufferArg(slot=slot, dtype=kind.number, name=name, device=names)
        made = self.tensor(self.node("PARAM", [self.shape_node(held)], buffer=arg), kind, held)
        return sharding.replicated(made) if rows else made

    def variable(self, name: str, least: int, greatest: int, *, slot: Optional[int] = None) -> Dim:
        """An integer that comes with each call, for sizes: program(x, n=3)."""
        if not 0 <= least <= greatest:
            raise GraphError("variable: %s from %d to %d" % (name, least, greatest), code="BAD_ARGUMENT")
        slot = self._take_slot(slot, int64, (("variable", name, least, greatest),), name)
        return Dim({(Variable(slot, name, least, greatest),): 1})

    def _take_slot(self, slot: Optional[int], kind: DType, shape: Any, name: str) -> int:
        if slot is None:
            slot = max(self._slots, default=-1) + 1
        held = self._slots.get(slot, (kind, shape))
        if held != (kind, shape):
            raise ShapeError("slot %d is %s %s already, not %s %s" % (slot, held[0].name, held[1], kind.name, shape))
        other = next((known for known, at in self._named.items() if at == slot and known != name), None)
        if name and self._named.get(name, slot) != slot:
            raise GraphError("slot %d is named %r already" % (self._named[name], name), code="BAD_ARGUMENT",
                             remedy="a name is of one parameter or variable")  # fmt: skip
        if name and other is not None:
            raise GraphError("slot %d is named %r already, not %r" % (slot, other, name), code="BAD_ARGUMENT")
        self._slots[slot] = held
        if name:
            self._named[name] = slot
        return slot

    def scalar(self, value: Any, dtype: Any) -> Tensor:
        """A number as a tensor of shape (). InvalidArgument if the dtype does not hold it."""
        kind = dtype_of(dtype)
        return self.tensor(self.node("CONST", constant=promotion.constant(value, kind)), kind, ())

    def constant(self, value: Any, dtype: Any = None) -> Tensor:
        """An array as part of the graph: for small tables. Data belongs in parameters."""
        kind = None if dtype is None else dtype_of(dtype)
        array = arrays.host_array(value, kind)
        kind = kind or dtype_of(array.dtype)
        array = array.astype(kind.numpy, copy=False)
        if array.ndim == 0 or array.size == 0:
            return self.full(array.shape, array.item() if array.size else 0, kind)
        data = self.tensor(self.node("BINARY", data=bytes(arrays.byte_view(array))), uint8, (array.nbytes,))
        flat = astype(data, kind) if kind.name == "bool" else bitcast(data, kind)
        return reshape(flat, array.shape)

    def full(self, shape: Any, value: Any, dtype: Any = "float32") -> Tensor:
        """A tensor of one number. InvalidArgument if the dtype does not hold it."""
        return broadcast_to(self.scalar(value, chosen("full", dtype)), shape)

    def zeros(self, shape: Any, dtype: Any = "float32") -> Tensor:
        """A tensor of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = "float32") -> Tensor:
        """A tensor of ones."""
        return self.full(shape, 1, dtype)

    def arange(self, stop: int, dtype: Any = "int64") -> Tensor:
        """0, 1, …, stop - 1."""
        kind, stop = chosen("arange", dtype), integer(stop, "arange: stop")
        if stop < 0 or not (kind.is_integer or kind.is_float):
            raise GraphError("arange: %d numbers of %s" % (stop, kind.name), code="BAD_ARGUMENT")
        # A number is the sum of its binary digits, and each digit is an axis of two: log2(stop)
        # additions that broadcast against each other.
        digits = max(stop - 1, 0).bit_length()
        total = self.zeros((1,) * digits, kind)
        for digit in range(digits):
            axis = tuple(2 if at == digits - 1 - digit else 1 for at in range(digits))
            pair = self.node("STACK", [self.scalar(0, kind).node, self.scalar(1 << digit, kind).node])
            total = total + reshape(self.tensor(pair, kind, (2,)), axis)
        return shrink(reshape(total, (1 << digits,)), [(0, stop)])

    # -- effects and results

    def output(self, *tensors: Any) -> None:
        """Makes tensors results of the program, in the order of all calls."""
        for tensor in tensors:
            self._own("output", tensor)
            self._outputs.append(tensor.node)

    def assign(self, target: Tensor, value: Any) -> Tensor:
        """Stores to a parameter, or to a view of one, when the program has run.

        Returns the parameter as it is then: as a result it is the parameter itself, in later
        nodes the value after the update. All other nodes see it as it was before.
        """
        base, store = self._store("assign", target, value)
        whole = self._nodes[base].op != graph_pb2.PARAM  # on each of several devices
        uop = self._nodes[self._nodes[base].src[0]] if whole else self._nodes[base]
        kind, shape = self._slots[uop.buffer.slot]
        return self.tensor(self.node("AFTER", [base, store]), kind, shape[1:] if whole else shape)

    def update(self, target: Tensor, value: Any) -> None:
        """As assign, with no result to show for it."""
        self._outputs.append(self._store("update", target, value)[1])

    def _store(self, function: str, target: Tensor, value: Any) -> Tuple[int, int]:
        self._own(function, target)
        base = target.node
        while self._nodes[base].op in _VIEWS:
            base = self._nodes[base].src[0]
        uop = self._nodes[base]
        if uop.op == graph_pb2.REPLICATED:
            uop = self._nodes[uop.src[0]]
        if uop.op != graph_pb2.PARAM:
            raise GraphError("%s: only a parameter or a view of one can be updated; this is computed" % function,
                             code="BAD_ARGUMENT")  # fmt: skip
        if not isinstance(value, Value):
            value = self.constant(value, target.dtype)
        self._own(function, value)
        if value.dtype is not target.dtype:
            raise DTypeError("%s: the parameter is %s, the value %s" % (function, target.dtype.name, value.dtype.name),
                             remedy="convert it with astype")  # fmt: skip
        value = broadcast_to(value, target.shape)
        return base, self.node("STORE", [target.node, value.node])

    def stranger(self, function: str, tensor: Value) -> GraphError:
        """What is raised for a tensor of another graph."""
        return GraphError("%s: the operands are of two different graphs" % function, code="BAD_ARGUMENT")

    def _own(self, function: str, tensor: Any) -> None:
        if not isinstance(tensor, Value) or tensor.graph is not self:
            raise GraphError("%s: %r is no tensor of this graph" % (function, tensor), code="BAD_ARGUMENT")

    # -- nodes

    def node(self, op: Op, sources: Sequence[int] = (), **arg: Any) -> int:
        """The index of a node of any op: its sources' indices, and UOp's oneof field as a keyword.

            graph.node("REDUCE", [x.node], reduce=ReduceArg(op=Op.ADD, axis=[0]))
        """
        return self._intern(graph_pb2.UOp(op=op_number(op), src=sources, **arg))

    def _intern(self, uop: graph_pb2.UOp) -> int:
        key = uop.SerializeToString()
        found = self._interned.setdefault(key, len(self._nodes))
        if found == len(self._nodes):
            self._nodes.append(uop)
        return found

    def tensor(self, node: int, dtype: Any, shape: Any, *, weak: bool = False) -> Tensor:
        """A node as a Tensor: what it holds is the caller's word; `weak` where it stands for a Python number."""
        return (self._weak if weak else self._tensor)(self, node, dtype_of(dtype), shape if isinstance(shape, tuple) else shape_of(shape))

    def shape_node(self, shape: Sequence[Size]) -> int:
        """A shape as a source of movement ops."""
        key = tuple(size for size in shape if type(size) is int)  # what only equals an integer is looked at each time
        made = self._shapes.get(key) if len(key) == len(shape) else None
        if made is None:
            made = self.node("STACK", [self._size_node(size) for size in shape])
            if len(key) == len(shape):
                self._shapes[key] = made
        return made

    def _size_node(self, size: Size, kind: DType = int32) -> int:
        """A size as a scalar of `kind`: int32, or int64 for a value."""
        if not isinstance(size, Dim):
            return self.node("CONST", constant=graph_pb2.ConstArg(dtype=weakint.number, i=size))
        total: Optional[int] = None
        for monomial, factor in size.terms:
            product = self._size_node(factor) if factor != 1 or not monomial else None
            for variable in monomial:
                node = self._variable_node(variable)
                if kind is not int32:
                    node = self.node("CAST", [node], cast_to=kind.number)
                product = node if product is None else self.node("MUL", [product, node])
            assert product is not None
            total = product if total is None else self.node("ADD", [total, product])
        assert total is not None
        return total

    def _variable_node(self, variable: Variable) -> int:
        arg = graph_pb2.BufferArg(slot=variable.slot, dtype=int32.number, addrspace=graph_pb2.ALU, name=variable.name,
                                  min_value=variable.least, max_value=variable.greatest)  # fmt: skip
        return self.node("PARAM", [self.shape_node(())], buffer=arg)

    def dim(self, size: Size) -> Tensor:
        """A size as a tensor of shape (): int32, or int64 where it may be beyond that."""
        if not isinstance(size, Dim):
            return self.scalar(size, int32)
        kind = int32 if -(2**31) <= size.least and size.greatest < 2**31 else int64
        return self.tensor(self._size_node(size, kind), kind, ())

    # -- the message

    def build(self, outputs: Optional[Sequence[Tensor]] = None) -> graph_pb2.Graph:
        """The graph as a message: the nodes that outputs and updates need, or these tensors alone; the root TUPLE last."""
        for tensor in outputs or ():
            self._own("build", tensor)
        roots = self._outputs if outputs is None else [tensor.node for tensor in outputs]
        if not roots:
            raise GraphError("the graph has neither an output nor an update", code="BAD_ROOT")
        needed = bytearray(len(self._nodes))
        for node in roots:
            needed[node] = 1
        for node in range(len(self._nodes) - 1, -1, -1):
            if needed[node]:
                for source in self._nodes[node].src:
                    needed[source] = 1
        graph, number = graph_pb2.Graph(), [0] * len(self._nodes)
        for node, uop in enumerate(self._nodes):
            if needed[node]:
                number[node] = len(graph.nodes)
                graph.nodes.append(uop)
                graph.nodes[-1].src[:] = [number[source] for source in uop.src]
        graph.nodes.add(op=graph_pb2.TUPLE, src=[number[node] for node in roots])
        return graph

    def append(self, gradient: Any) -> List[Tensor]:
        """Puts a gradient's graph (Client.gradient) into this one; returns its results in order.

        Its parameters are those of equal slots here. ShapeError if they are not alike.
        """
        nodes = gradient.graph.nodes
        number: List[int] = []
        for uop in nodes[:-1]:
            copied = graph_pb2.UOp()
            copied.CopyFrom(uop)
            copied.src[:] = [number[source] for source in uop.src]
            if uop.op == graph_pb2.PARAM and uop.buffer.addrspace != graph_pb2.ALU:
                self._match(uop, nodes)
            number.append(self._intern(copied))
        return [self.tensor(number[source], BY_NUMBER[row.dtype], tuple(row.shape))
                for source, row in zip(nodes[-1].src, gradient.results)]  # fmt: skip

    def _match(self, param: graph_pb2.UOp, nodes: Any) -> None:
        sizes = [nodes[axis] for axis in nodes[param.src[0]].src]
        if all(size.op == graph_pb2.CONST for size in sizes):
            shape = tuple(size.constant.i for size in sizes)
            self._take_slot(param.buffer.slot, BY_NUMBER[param.buffer.dtype], shape, param.buffer.name)

    def named(self) -> "Tuple[Dict[str, Tuple[int, DType, Shape]], Dict[str, Variable]]":
        """Parameters by name, each with slot, dtype and shape; and variables by name. In the order of their slots."""
        parameters: Dict[str, Tuple[int, DType, Shape]] = {}
        variables: Dict[str, Variable] = {}
        for name, slot in sorted(self._named.items(), key=lambda item: item[1]):
            kind, shape = self._slots[slot]
            if shape and isinstance(shape[0], tuple):
                variables[name] = Variable(slot, *shape[0][1:])
            else:
                parameters[name] = (slot, kind, shape)
        return parameters, variables

    def slot_of(self, tensor: Value) -> int:
        """The slot of a tensor that is a parameter."""
        uop = self._nodes[tensor.node]
        if uop.op == graph_pb2.REPLICATED:
            uop = self._nodes[uop.src[0]]
        if uop.op != graph_pb2.PARAM:
            raise GraphError("this is computed, no parameter", code="BAD_ARGUMENT")
        return uop.buffer.slot

    def set_tag(self, node: int, tag: str) -> None:
        """Names a node, by its index, in the server's error messages."""
        self._nodes[node].tag = tag

    def __len__(self) -> int:
        return len(self._nodes)

    def __repr__(self) -> str:
        return "<Graph of %d nodes, %d outputs>" % (len(self._nodes), len(self._outputs))
