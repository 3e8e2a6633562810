"""Graphs that no builder would send: wrong, wild, or very much of something."""

from __future__ import annotations

import numpy as np
from attack import DTYPES, Nodes, Target, answered, attack, doubled, refused, within
from kiln.v1 import graph_pb2, kernel_service_pb2


def _rejected(name, code, make, promise):
    """A row of the table below: the graph that `make` makes is refused with this code."""

    def run(target: Target) -> None:
        refused(target.compile(make()), *code.split())

    run.__doc__ = promise
    attack(run, name="graph_" + name)


def _empty():
    return graph_pb2.Graph()


def _forward():
    graph = doubled()
    graph.nodes[-2].src[0] = len(graph.nodes) - 1
    return graph


def _self():
    graph = doubled()
    graph.nodes[-2].src[0] = len(graph.nodes) - 2
    return graph


def _far():
    graph = doubled()
    graph.nodes[-2].src[0] = 0xFFFFFFFF
    return graph


def _unknown_op(number):
    def make():
        graph = doubled()
        graph.nodes[-2].op = number
        return graph

    return make


def _without_argument(op):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 8)
        return nodes.done(nodes.op(op, x))

    return make


def _dtype(number):
    def make():
        graph = doubled()
        for node in graph.nodes:
            if node.HasField("buffer"):
                node.buffer.dtype = number
        return graph

    return make


def _sized(*sizes):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", *sizes)
        return nodes.done(nodes.op("ADD", x, x))

    return make


def _mixed():
    nodes = Nodes()
    return nodes.done(nodes.op("ADD", nodes.param(0, "float32", 8), nodes.param(1, "int32", 8)))


def _shapes():
    nodes = Nodes()
    return nodes.done(nodes.op("ADD", nodes.param(0, "float32", 8), nodes.param(1, "float32", 9)))


def _slot_twice():
    nodes = Nodes()
    return nodes.done(nodes.op("CAT", nodes.param(0, "float32", 8), nodes.param(0, "float32", 9)))


def _slot(number):
    def make():
        nodes = Nodes()
        x = nodes.param(number, "float32", 8)
        return nodes.done(nodes.op("ADD", x, x))

    return make


def _reduce(axes, op="ADD"):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 8)
        node = nodes.add("REDUCE", x)
        node.reduce.op = graph_pb2.Op.Value(op)
        node.reduce.axis.extend(axes)
        return nodes.done(nodes.last())

    return make


def _permute(axes):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 4, 2)
        nodes.add("PERMUTE", x).axes.axis.extend(axes)
        return nodes.done(nodes.last())

    return make


def _moved(op, *sizes):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 8)
        return nodes.done(nodes.op(op, x, *[nodes.shape(size) for size in sizes]))

    return make


def _text(op):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 8)
        nodes.add(op, x).text = 'asm volatile("int3")'
        return nodes.done(nodes.last())

    return make


def _binary():
    nodes = Nodes()
    linear = nodes.op("LINEAR")
    nodes.add("SOURCE").text = "void f() {}"
    source = nodes.last()
    nodes.add("BINARY").data = b"\x7fELF" + b"\xcc" * 64
    nodes.op("PROGRAM", linear, source, nodes.last())
    return nodes.graph


def _getitem():
    nodes = Nodes()
    inner = nodes.op("TUPLE", nodes.param(0, "float32", 8))
    nodes.add("GETTUPLE", inner).index = 1 << 40
    return nodes.done(nodes.last())


def _special(name, bound):
    def make():
        nodes = Nodes()
        x = nodes.param(0, "float32", 8)
        nodes.add("SPECIAL", nodes.const(bound, "int64")).special.name = name
        item = nodes.last()
        store = nodes.op("STORE", nodes.op("INDEX", x, item), nodes.const(1.0, "float32"))
        return nodes.done(store, root="SINK")

    return make


def _devices(*names):
    def make():
        graph = doubled()
        for node in graph.nodes:
            if node.HasField("buffer"):
                node.buffer.device.extend(names)
        return graph

    return make


for _name, _make, _promise in (
    ("empty", _empty, "A graph without nodes is no program."),
    ("source_ahead", _forward, "A source comes before its user."),
    ("source_itself", _self, "A node is no source of its own."),
    ("source_far", _far, "A source that is no node is not read."),
    ("op_zero", _unknown_op(0), "Op 0 is none."),
    ("op_large", _unknown_op(999), "An op that the server does not know is refused by its number."),
    ("op_negative", _unknown_op(-5), "So is a negative one."),
    ("cast_without_dtype", _without_argument("CAST"), "CAST says to what."),
    ("bitcast_without_dtype", _without_argument("BITCAST"), "BITCAST says to what."),
    ("permute_without_axes", _without_argument("PERMUTE"), "PERMUTE says which order."),
    ("reduce_without_op", _without_argument("REDUCE"), "REDUCE says how."),
    ("dtype_zero", _dtype(0), "A parameter has a dtype."),
    ("dtype_unknown", _dtype(250), "A dtype that is none is refused."),
    ("negative_size", _sized(-1), "A shape has no negative size."),
    ("least_size", _sized(-(1 << 63)), "Nor the least one there is."),
    ("size_times_size", _sized(1 << 62, 1 << 62), "A shape's elements are counted without going round."),
    ("size_times_bytes", _sized(1 << 62), "So are its bytes."),
    ("many_sizes", _sized(*[1 << 40] * 40), "And however many axes it has."),
    ("dtypes_mixed", _mixed, "Operands have one dtype."),
    ("shapes_mixed", _shapes, "Operands have one shape."),
    ("slot_twice", _slot_twice, "A slot has one shape."),
    ("slot_large", _slot(0xFFFFFFFF), "A slot is below 65536."),
    ("reduce_axis_negative", _reduce([-1]), "An axis is one of the value's."),
    ("reduce_axis_far", _reduce([7]), "An axis is one of the value's."),
    ("reduce_op_strange", _reduce([0], "SIN"), "A reduction is by ADD, MUL or MAX."),
    ("permute_short", _permute([0]), "PERMUTE names each axis."),
    ("permute_twice", _permute([0, 0]), "PERMUTE names each axis once."),
    ("permute_far", _permute([0, 1 << 40]), "PERMUTE names axes that are there."),
    ("reshape_other", _moved("RESHAPE", 9), "RESHAPE keeps the number of elements."),
    ("reshape_negative", _moved("RESHAPE", -8), "RESHAPE takes no negative size."),
    ("shrink_beyond", _moved("SHRINK", 4, 8), "SHRINK stays inside."),
    ("shrink_before", _moved("SHRINK", -1, 4), "SHRINK stays inside."),
    ("shrink_around", _moved("SHRINK", (1 << 63) - 1, 8), "SHRINK's end is counted without going round."),
    ("expand_other", _moved("EXPAND", 16), "EXPAND repeats axes of size 1 alone."),
    ("pad_less", _moved("PAD", 0, 4), "PAD makes nothing smaller."),
    ("pad_around", _moved("PAD", (1 << 63) - 1, (1 << 63) - 1), "PAD's size is counted without going round."),
    ("gettuple_far", _getitem, "GETTUPLE takes an element that is there."),
    ("special_name", _special("gidx9", 8), "SPECIAL has one of nine names."),
    ("special_negative", _special("gidx0", -8), "SPECIAL has no negative bound."),
    ("special_huge", _special("lidx0", 1 << 50), "A group has as many items as a device has."),
):
    _rejected(_name, "", _make, _promise)

for _name, _code, _make, _promise in (
    ("custom", "NOT_ALLOWED", _text("CUSTOM"), "Source text of a client is not compiled."),
    ("customi", "NOT_ALLOWED", _text("CUSTOMI"), "Source text of a client is not compiled."),
    ("ins", "NOT_ALLOWED", _text("INS"), "Instructions of a client are not assembled."),
    ("devices", "UNKNOWN_DEVICE", _devices("CPU:0", "NOWHERE:0"), "Devices are those that the server has."),
    ("devices_twice", "", _devices("CPU:0", "CPU:0", "CPU:0"), "A value is split over devices that differ."),
    ("devices_by_path", "UNKNOWN_DEVICE", _devices("../../etc/passwd", "CPU:0"), "A device's name is no path."),
    ("binary", "NOT_ALLOWED UNSUPPORTED_OP", _binary, "Machine code of a client is not loaded."),
):
    _rejected(_name, _code, _make, _promise)


@attack
def graph_of_too_many_nodes(target):
    """A graph has a limit of nodes, and the error says which."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    for _ in range(200_001):
        x = nodes.op("ADD", x, x)
    error = refused(target.compile(nodes.done(x)), "GRAPH_TOO_LARGE")
    assert error.limit == "nodes" and 0 < error.limit_value <= 200_000, error


@attack
def graph_that_doubles(target):
    """A value that is used twice is computed once, however often that is said."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    for _ in range(60):  # 2^60 paths
        x = nodes.op("ADD", x, x)
    within(20, lambda: answered(target.compile(nodes.done(x))))


@attack
def graph_very_deep(target):
    """Nothing that reads a graph recurses on its depth."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    for _ in range(20_000):
        x = nodes.op("NEG", x)
    within(60, lambda: answered(target.compile(nodes.done(x), timeout=60)))


@attack
def graph_with_ten_thousand_sources(target):
    """A node has as many sources as a message bounds."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 1)
    within(60, lambda: answered(target.compile(nodes.done(nodes.op("STACK", *[x] * 10_000)), timeout=60)))


@attack
def graph_with_packed_sources_by_the_million(target):
    """Packed sources are counted before they become objects."""
    graph = graph_pb2.Graph()
    for _ in range(16):
        graph.nodes.add(op=graph_pb2.TUPLE, src=[0] * 1_000_000)
    request = kernel_service_pb2.CompileRequest(graph=graph)
    within(20, lambda: refused(target.raw("KernelService.Compile", request.SerializeToString())))


@attack
def graph_of_functions_that_call_each_other(target):
    """FUNCTIONs that multiply are counted as they are resolved."""
    nodes = Nodes()
    x = nodes.param(0, "float32", 8)
    for _ in range(40):
        inner = nodes.op("TUPLE", nodes.op("ADD", x, x))
        call = nodes.op("FUNCTION", inner, x)
        nodes.add("GETTUPLE", call).index = 0
        x = nodes.last()
    within(30, lambda: answered(target.compile(nodes.done(x))))


@attack
def wild_index(target):
    """An index from data reads inside the buffer or gives 0."""
    nodes = Nodes()
    x, at = nodes.param(0, "float32", 8), nodes.param(1, "int64", 4)
    graph = nodes.done(nodes.op("INDEX", x, at))
    compiled = target.compile(graph)
    assert compiled, compiled.error
    execute = kernel_service_pb2.ExecuteRequest(graph=graph, result_mode=kernel_service_pb2.RESULT_INLINE)
    values = np.arange(1, 9, dtype=np.float32)
    wild = np.array([0, 7, -1, 1 << 60], np.int64)
    for slot, array, dtype in ((0, values, "float32"), (1, wild, "int64")):
        argument = execute.arguments.add(slot=slot)
        argument.tensor.dtype = DTYPES[dtype]
        argument.tensor.shape.extend(array.shape)
        argument.tensor.data = array.tobytes()
    ran = target.call("KernelService.Execute", execute)
    assert ran, ran.error
    got = np.frombuffer(ran.answer.results[0].tensor.data, np.float32)
    assert got.tolist() == [1, 8, 0, 0], got


@attack
def constants_at_their_ends(target):
    """Constants that do not fit their dtype are refused, and NaN's payload harms nobody."""
    for value, dtype in ((1 << 40, "int32"), (-1, "uint8"), (2, "bool")):
        nodes = Nodes()
        refused(target.compile(nodes.done(nodes.const(value, dtype))))
    nodes = Nodes()
    node = nodes.add("CONST")
    node.constant.dtype, node.constant.decimal = 1, "9" * 100_000
    refused(target.compile(nodes.done(nodes.last())))


@attack
def tag_of_a_megabyte(target):
    """A tag is bounded, or harmless; it comes back in an error as it was."""
    graph = doubled()
    graph.nodes[-2].tag = "\0\xff\n" * 300_000
    answered(target.compile(graph))
