"""Client of kilnd: sends UOp graphs, keeps arrays on its devices, runs programs.

    import kiln

    with kiln.connect("localhost:7437") as client:
        ...

client.py begins the tour; docs/python.md shows it all.
"""

from kiln.buffers import Buffer
from kiln.client import Client, Gradient, connect
from kiln.connection import Traffic
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
    ResourceExhausted,
    ShapeError,
    Unauthenticated,
    Unavailable,
    Unimplemented,
    UnsupportedDType,
    WrongVersion,
)
from kiln.hash import graph_hash
from kiln.program import At, Program, Run

__version__ = "0.1.0"
