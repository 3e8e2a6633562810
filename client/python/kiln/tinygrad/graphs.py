"""tinygrad's UOps as Kiln's: the two speak one IR with a few spellings apart.

What differs, and is spelled anew here:

    EXPAND(x, dims)       puts dims in front; Kiln's stretches axes of size 1
    REDUCE(x), (op, n)    drops the first n axes; Kiln's keeps them with size 1
    PAD                   fills with 0; Kiln's with Invalid unless told
    CONST Invalid         has dtype bool; Kiln's has that of what it meets
    COPY to one device    is its source: what lies elsewhere is sent with the call

A Writer is for one graph: it gives each UOp one node, whatever number of users it has.
What has no node in Kiln raises NotExpressible, with a reason that stats() counts.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from tinygrad.dtype import DType, Invalid, dtypes
from tinygrad.uop.ops import GroupOp, Ops, UOp

from kiln.tinygrad.calls import as_kernel, is_kernel_call, kernel_outputs
from kiln.tinygrad.integers import integer_power, width_of, wrapped
from kiln.tinygrad.words import ADDRSPACES, AXIS_TYPES, PLAIN, NotExpressible, dtype_number
from kiln.v1 import graph_pb2 as pb

# Of numbers that were weak, which one gives way: the former.
_RANK = [dtypes.int32, dtypes.int64, dtypes.float32]

# Ops whose sources are loops, not their counters.
_OF_LOOPS = (Ops.END, Ops.AFTER, Ops.GROUP)


def is_invalid(u: UOp) -> bool:
    """Whether a value is Invalid everywhere."""
    while u.base.op in GroupOp.Unary and u.base.dtype is dtypes.bool:
        u = u.base.src[0]
    return bool(u.base.is_invalid)


def is_wide(u: UOp) -> bool:
    """Whether a weak integer may be more than an int32 holds."""
    if u.dtype is not dtypes.weakint or u.op not in (Ops.CONST, *GroupOp.ALU) or u.shape or is_invalid(u):
        return False
    return u.vmin < dtypes.int32.min or u.vmax > dtypes.int32.max


def is_whole(target: UOp) -> bool:
    """Whether a view shows all of its storage, in order."""
    while target.op in (Ops.AFTER, Ops.RESHAPE):
        target = target.src[0]
    return target.op is Ops.PARAM


def children_first(root: UOp) -> List[UOp]:
    """Every UOp that `root` needs but for bodies of kernels, sources first; no recursion, since graphs are deep."""
    order: List[UOp] = []
    seen: Set[UOp] = set()
    stack = [(root, False)]
    while stack:
        u, ready = stack.pop()
        if ready:
            order.append(u)
        elif u not in seen:
            seen.add(u)
            stack.append((u, True))
            stack += [(source, False) for source in reversed(u.src[is_kernel_call(u) :]) if source not in seen]
    return order


class Writer:
    """Builds one kiln.v1.Graph from UOps.

    `slot_of` is for kernels: it gives a PARAM its slot in the graph, where otherwise it keeps its own. A kernel that
    another graph calls is written into that: its names are its own.
    """

    def __init__(self, slot_of: Optional[Callable[[UOp], int]] = None, graph: Optional[pb.Graph] = None):
        self.graph = pb.Graph() if graph is None else graph
        self._slot_of = slot_of or (lambda u: u.arg.slot)
        # Whether variables are int64: so are a kernel's counters, which they meet in indices.
        self._wide = slot_of is not None
        self._done: Dict[Any, int] = {}
        # Weak in tinygrad, but computed at run time: a number with this dtype here.
        self._widened: Dict[UOp, DType] = {}
        # The loops themselves, where _done has their counters in tinygrad's dtype.
        self._loops: Dict[UOp, int] = {}

    # -- nodes

    def node(self, op: int, sources: Sequence[int] = (), **arg: Any) -> int:
        """Adds a node; its number."""
        self.graph.nodes.add(op=op, src=sources, **arg)
        return len(self.graph.nodes) - 1

    def shared(self, key: Any, op: int, sources: Sequence[int] = (), **arg: Any) -> int:
        """As node(), but once for each key."""
        found = self._done.get(key)
        if found is None:
            found = self._done[key] = self.node(op, sources, **arg)
        return found

    def write(self, root: UOp) -> int:
        """`root` and all it needs; its number."""
        if root not in self._done:
            order = children_first(root)
            self._wide = self._wide or any(map(is_wide, order))
            for u in order:
                if u not in self._done and not is_invalid(u):
                    self._done[u] = self._write_one(u)
            if is_invalid(root):
                return self._invalid(root, root.dtype)
        return self._done[root]

    def at(self, u: UOp, kind: Optional[DType] = None) -> int:
        """The number of a UOp that was written; Invalid takes the dtype it is asked for."""
        return self._invalid(u, kind or u.dtype) if is_invalid(u) else self._done[u]

    # -- constants and shapes

    def constant(self, value: Any, kind: DType) -> int:
        number = dtype_number(kind)
        if kind in dtypes.ints and not isinstance(value, (bool, float)) and value is not Invalid:
            value = wrapped(int(value), kind)
        if value is Invalid:
            return self.shared(("const", number), pb.CONST, constant=pb.ConstArg(dtype=number, invalid=True))
        arg = pb.ConstArg(dtype=number)
        if isinstance(value, bool):
            arg.b = value
        elif isinstance(value, int):
            if -(1 << 63) <= value < 1 << 63:
                arg.i = value
            else:
                arg.u = value
        else:
            arg.f = float(value)
        return self.shared(("const", arg.SerializeToString()), pb.CONST, constant=arg)

    def size(self, value: Any) -> int:
        """An integer of a shape: a number, or an expression of variables."""
        return self.write(value) if isinstance(value, UOp) else self.constant(int(value), dtypes.weakint)

    def shape(self, sizes: Sequence[Any]) -> int:
        numbers = tuple(self.size(value) for value in sizes)
        return self.shared(("shape", numbers), pb.STACK, numbers)

    def _invalid(self, u: UOp, kind: DType) -> int:
        """Invalid under movement ops, as a value of dtype `kind`."""
        value = self.constant(Invalid, kind)
        shape = u.shape
        if not shape:
            return value
        ones = self.shared(("ones", value, len(shape)), pb.RESHAPE, (value, self.shape((1,) * len(shape))))
        sizes = self.shape(shape)
        return self.shared(("invalid", ones, sizes), pb.EXPAND, (ones, sizes))

    # -- one UOp

    def _sources(self, u: UOp) -> List[int]:
        """Sources of a plain op; an Invalid takes the dtype of its partners."""
        if any(s in self._widened for s in u.src):
            return self._narrowed(u)
        if u.op in _OF_LOOPS:
            return [self._loops.get(s, self._done[s]) for s in u.src]
        if not any(is_invalid(s) for s in u.src):
            return [self._done[s] for s in u.src]
        if u.op is Ops.WHERE:
            kinds: Tuple[DType, ...] = (dtypes.bool, u.dtype, u.dtype)
        elif u.op is Ops.STORE:
            kinds = (u.src[0].dtype,) * 2 + (dtypes.bool,) * (len(u.src) - 2)
        elif u.op is Ops.INDEX:
            kinds = (u.src[0].dtype,) + (dtypes.weakint,) * (len(u.src) - 1)
        else:
            strong = next((s.dtype for s in u.src if not is_invalid(s)), u.dtype)
            kinds = (strong,) * len(u.src)
        return [self.at(s, kind) for s, kind in zip(u.src, kinds)]

    def _narrowed(self, u: UOp) -> List[int]:
        """Sources of an op with one that was widened: in the dtype of the strong ones, if it has any."""
        if u.op is Ops.INDEX:
            return [self.at(u.src[0]), *(self.at(s, dtypes.weakint) for s in u.src[1:])]
        first = 1 if u.op is Ops.WHERE else 0
        last = 1 if u.op in GroupOp.Movement else len(u.src)
        operands = u.src[first:last]
        strong = [s.dtype for s in operands if s.dtype not in dtypes.weaks and not is_invalid(s)]
        kinds = [self._widened[s] for s in operands if s in self._widened]
        target = strong[0] if strong else max(kinds, key=_RANK.index)
        numbers = [self.at(s, target) for s in u.src]
        for i, s in enumerate(operands, first):
            if self._widened.get(s, target) is not target:
                numbers[i] = self.node(pb.CAST, [numbers[i]], cast_to=dtype_number(target))
        if u.dtype in dtypes.weaks:
            self._widened[u] = target
        return numbers

    def _write_one(self, u: UOp) -> int:
        writer = _WRITERS.get(u.op)
        if writer is not None:
            return writer(self, u)
        if u.op not in PLAIN:
            raise NotExpressible("op %s" % u.op.name)
        return self.node(PLAIN[u.op], self._sources(u))

    def _constant(self, u: UOp) -> int:
        if u.dtype is dtypes.weakint and u.arg is not Invalid and not -(1 << 63) <= u.arg < 1 << 63:
            # Such a number meets nothing but uint64.
            return self.constant(u.arg, dtypes.uint64)
        return self.constant(u.arg, u.dtype)

    def _param(self, u: UOp) -> int:
        arg = u.arg
        space = ADDRSPACES[arg.addrspace if arg.addrspace is not None else AddrSpace.GLOBAL]
        if u.is_variable and u.op is Ops.BUFFER:
            raise RuntimeError("unbound Variable %s" % arg.name)
        buffer = pb.BufferArg(slot=self._slot_of(u), dtype=dtype_number(arg.dtype), addrspace=space)
        if space == pb.ALU:
            if arg.vmin_vmax is None:
                raise NotExpressible("a variable without a range")
            buffer.name = arg.name or ""
            buffer.min_value, buffer.max_value = (int(bound) for bound in arg.vmin_vmax)
            if self._wide and arg.dtype is dtypes.weakint:
                buffer.dtype = dtype_number(dtypes.int64)
                self._widened[u] = dtypes.int64
        elif u.op is Ops.BUFFER and space == pb.GLOBAL:
            raise NotExpressible("memory of a function's own")
        op = pb.BUFFER if u.op is Ops.BUFFER and space in (pb.LOCAL, pb.REG) else pb.PARAM
        return self.node(op, [self.shape(u.shape)], buffer=buffer)

    def _cast(self, u: UOp) -> int:
        if u.arg in dtypes.weaks and u.op is Ops.CAST:
            source = u.src[0]
            if source.op is Ops.CONST and not is_invalid(source):
                return self.constant(u.arg.const(source.arg), u.arg)
            self._widened[u] = width_of(u.arg)
            return self.node(pb.CAST, [self.at(source)], cast_to=dtype_number(width_of(u.arg)))
        op = pb.CAST if u.op is Ops.CAST else pb.BITCAST
        return self.node(op, [self.at(u.src[0])], cast_to=dtype_number(u.arg))

    def _permute(self, u: UOp) -> int:
        return self.node(pb.PERMUTE, [self.at(u.src[0])], axes=pb.AxesArg(axis=u.arg))

    def _flip(self, u: UOp) -> int:
        return self.node(pb.FLIP, [self.at(u.src[0])], flip=pb.FlipArg(axis=u.arg))

    def _shrink(self, u: UOp) -> int:
        """A view of a view is one view: a TinyJit's result may be larger by now than the view in between says."""
        views = [u]
        while views[-1].src[0].op is Ops.SHRINK:
            views.append(views[-1].src[0])
        if len(views) == 1:
            return self.node(pb.SHRINK, self._sources(u))
        offsets = [sum(view.marg[axis][0] for view in views) for axis in range(len(u.shape))]
        return self.node(pb.SHRINK, [self.at(views[-1].src[0]), self.shape(offsets), self.shape(u.shape)])

    def _pad(self, u: UOp) -> int:
        source = u.src[0]
        fill = self.constant(source.dtype.const(0), source.dtype)
        pad = pb.PadArg(fill=self.graph.nodes[fill].constant)
        return self.node(pb.PAD, [self._done[s] for s in u.src], pad=pad)

    def _expand(self, u: UOp) -> int:
        source, front = u.src[0], u.marg
        flat = self.at(source)
        if not front:
            return flat
        ones = self.node(pb.RESHAPE, [flat, self.shape((1,) * len(front) + source.shape)])
        return self.node(pb.EXPAND, [ones, self.shape(tuple(front) + source.shape)])

    def _reduce(self, u: UOp) -> int:
        op, count = u.arg
        sources = [self.at(u.src[0])] + [self._loops.get(s, self._done[s]) for s in u.src[1:]]
        if len(sources) > 1:  # over RANGEs
            return self.node(pb.REDUCE, sources, reduce=pb.ReduceArg(op=PLAIN[op]))
        if count == 0:
            return sources[0]
        kept = self.node(pb.REDUCE, sources, reduce=pb.ReduceArg(op=PLAIN[op], axis=range(count)))
        return self.node(pb.RESHAPE, [kept, self.shape(u.shape)])

    def _shift(self, u: UOp) -> int:
        """tinygrad's counts may have a dtype of their own; Kiln's have the value's."""
        value, count = u.src
        numbers = self._sources(u)
        if count.dtype != value.dtype and value.dtype not in dtypes.weaks and count.dtype not in dtypes.weaks:
            numbers[1] = self.node(pb.CAST, [numbers[1]], cast_to=dtype_number(value.dtype))
        return self.node(PLAIN[u.op], numbers)

    def _float(self, u: UOp) -> int:
        """A function of floats: an integer becomes one first."""
        number = self.at(u.src[0], u.dtype)
        if not is_invalid(u.src[0]) and dtypes.is_int(u.src[0].dtype) or u.src[0].dtype is dtypes.bool:
            kind = width_of(u.dtype) if u.dtype in dtypes.weaks else u.dtype
            number = self.node(pb.CAST, [number], cast_to=dtype_number(kind))
        if u.dtype in dtypes.weaks and (u.src[0] in self._widened or u.src[0].op is not Ops.CONST):
            self._widened[u] = width_of(u.dtype)
        return self.node(PLAIN[u.op], [number])

    def _power(self, u: UOp) -> int:
        if dtypes.is_int(u.dtype):
            return self.write(integer_power(*u.src))
        return self.node(pb.POW, self._sources(u))

    def _store(self, u: UOp) -> int:
        """tinygrad's lowered kernels store a value of another dtype as C does."""
        numbers = self._sources(u)
        target, value = u.src[0].dtype, u.src[1].dtype
        if value is not target and value not in dtypes.weaks and not is_invalid(u.src[1]):
            numbers[1] = self.node(pb.CAST, [numbers[1]], cast_to=dtype_number(target))
        return self.node(pb.STORE, numbers)

    def _gettuple(self, u: UOp) -> int:
        return self.node(pb.GETTUPLE, [self.at(u.src[0])], index=u.arg)

    def _copy(self, u: UOp) -> int:
        if not isinstance(u.arg, str) or not isinstance(u.src[0].device, (str, type(None))):
            raise NotExpressible("several devices")
        return self.at(u.src[0])

    def _call(self, u: UOp) -> int:
        body, *arguments = u.src
        if body.op is not Ops.SINK:
            raise NotExpressible("CALL of %s" % body.op.name)
        kernel = Writer(_slot_of_a_kernel, self.graph) if is_kernel_call(u) else None
        if kernel and not all(is_whole(arguments[slot]) for slot in kernel_outputs(body)):
            raise NotExpressible("a kernel that writes to a view")
        return self.node(pb.CALL, [kernel.write(as_kernel(body)) if kernel else self.at(body), *map(self.at, arguments)])

    def _range(self, u: UOp) -> int:
        if not u.src or u.dtype is dtypes.void:
            raise NotExpressible("a loop that ends by a condition")
        *axis_id, kind = u.arg
        if kind not in AXIS_TYPES:
            raise NotExpressible("axis type %s" % kind.name)
        loop = self.node(pb.RANGE, [self.at(u.src[0])], range=pb.RangeArg(axis_id=axis_id, type=AXIS_TYPES[kind]))
        return self._counter(u, loop)

    def _special(self, u: UOp) -> int:
        return self._counter(u, self.node(pb.SPECIAL, [self.at(u.src[0])], special=pb.SpecialArg(name=u.arg)))

    def _counter(self, u: UOp, number: int) -> int:
        """Kiln counts in int64, tinygrad in the dtype of the bound."""
        self._loops[u] = number
        if u.dtype in (dtypes.weakint, dtypes.int64):
            return number
        return self.node(pb.CAST, [number], cast_to=dtype_number(u.dtype))

    def _noop(self, u: UOp) -> int:
        return self.node(pb.NOOP, [self.at(s) for s in u.src])


def _slot_of_a_kernel(param: UOp) -> int:
    if param.arg.slot < 0:
        raise NotExpressible("a kernel that reads a variable")
    return param.arg.slot


_WRITERS: Dict[Ops, Callable[[Writer, UOp], int]] = {
    Ops.CONST: Writer._constant,
    Ops.PARAM: Writer._param,
    Ops.BUFFER: Writer._param,
    Ops.CAST: Writer._cast,
    Ops.BITCAST: Writer._cast,
    Ops.PERMUTE: Writer._permute,
    Ops.FLIP: Writer._flip,
    Ops.SHRINK: Writer._shrink,
    Ops.PAD: Writer._pad,
    Ops.EXPAND: Writer._expand,
    Ops.REDUCE: Writer._reduce,
    Ops.SIN: Writer._float,
    Ops.LOG2: Writer._float,
    Ops.EXP2: Writer._float,
    Ops.SQRT: Writer._float,
    Ops.RECIPROCAL: Writer._float,
    Ops.POW: Writer._power,
    Ops.STORE: Writer._store,
    Ops.SHL: Writer._shift,
    Ops.SHR: Writer._shift,
    Ops.COPY: Writer._copy,
    Ops.GETTUPLE: Writer._gettuple,
    Ops.CALL: Writer._call,
    Ops.RANGE: Writer._range,
    Ops.SPECIAL: Writer._special,
    Ops.NOOP: Writer._noop,
}
