"""Client of kilnd: sends UOp graphs, keeps arrays on its devices, runs programs.

    import kiln

    kiln.connect("localhost:7437")
    x = kiln.array([1.0, 2.0])
    print(kiln.jit(lambda x: kiln.exp(x).sum())(x))

functional/array.py begins the tour of arrays and functions, client.py that of graphs, programs and
buffers; docs/python_functions.md and docs/python.md show it all.
"""

from kiln.buffers import Buffer
from kiln.client import Client, Gradient, connect
from kiln.transport.connection import Traffic
from kiln.transport.trace import traceparent
from kiln.dtypes import (
    BY_NAME as dtypes_by_name,
    DType,
    bfloat16,
    bool_,
    dtype,
    float8_e4m3,
    float8_e4m3_fnuz,
    float8_e5m2,
    float8_e5m2_fnuz,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from kiln.errors import (
    BufferFreed,
    Cancelled,
    ConnectionLost,
    DeadlineExceeded,
    DTypeError,
    FailedPrecondition,
    GraphError,
    Internal,
    InvalidArgument,
    KilnError,
    NoServer,
    NotFound,
    OutOfRange,
    PermissionDenied,
    PlaceError,
    ResourceExhausted,
    ShapeError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    UnsupportedDType,
    WrongVersion,
)
from kiln.dims import Dim
from kiln.composed.division import floor_divide, pow as power, remainder
from kiln.composed.statistics import cumsum
from kiln.composed.signs import abs, abs as absolute
from kiln.elementwise import (
    add,
    astype,
    bitcast,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    clip,
    divide,
    equal,
    greater,
    greater_equal,
    invert,
    isnan,
    left_shift,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    right_shift,
    subtract,
    where,
)
from kiln.functions import (
    ceil,
    cos,
    detach,
    exp,
    exp2,
    floor,
    log,
    log2,
    reciprocal,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    trunc,
)
from kiln.functional.array import Array
from kiln.functional.current import current
from kiln.functional.eager import dispatching as _dispatching
from kiln.functional.grad import grad, value_and_grad
from kiln.functional.jit import jit
from kiln.functional.local import local
from kiln.functional.making import arange, array, full, ones, ones_like, zeros, zeros_like
from kiln.functional.names import offer as _offer
from kiln.functional.state import State
from kiln.functional.trees import flatten as tree_flatten, map_tree as tree_map, unflatten as tree_unflatten
from kiln.functional.vmap import vmap
from kiln.interchange.files import load, save
from kiln.interchange.model_files import save_model
from kiln.interchange.pickled import by_value
from kiln.graph import Graph, message_of_nodes
from kiln.hash import graph_hash
from kiln.indexing import take, take_along_axis
from kiln.movement import (
    broadcast_to,
    concatenate,
    expand,
    expand_dims,
    flatten,
    flip,
    moveaxis,
    pad,
    permute,
    reshape,
    shrink,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
)
from kiln.composed.nn import gelu, layer_norm, log_softmax, logsumexp, relu, sigmoid, silu, softmax
from kiln.program import At, AtShards, Program, Run
from kiln.recording import Integer, Memory, Recording
from kiln.reduce import all, any, argmax, argmin, dot, matmul, max, mean, min, prod, std, sum, var
from kiln.sharding import Shards, all_reduce, copy, replicate, shard, spread
from kiln.composed.special import erf, tanh
from kiln.tensor import Tensor

# The builder's functions are arrays' functions, too.
_functions = _dispatching(globals())
globals().update(_functions)
_offer(_functions)

from kiln import numpy  # noqa: E402: it stands on all that is above
from kiln.numpy.creation import from_dlpack  # noqa: E402

from kiln.help import describe as _describe  # noqa: E402

__version__ = "0.1.0"

__all__ = sorted(name for name, one in globals().items() if name == "numpy" or name[0] != "_" and not isinstance(one, type(numpy)))
# Of the modules, those that are meant; each is there when it has been imported.
_MODULES = ("aio", "jax", "onnx", "served", "tinygrad", "typing")


_describe({name: globals()[name] for name in __all__})


def __dir__() -> "list[str]":
    """Without the modules that all this is made of."""
    return sorted([*__all__, "__version__", *(name for name in _MODULES if name in globals())])
