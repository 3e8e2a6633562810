"""Examples of failures: what raises each, or what it is."""

TEXT = """
KilnError
>>> kiln.array([1j])
Traceback (most recent call last):
    ...
kiln.errors.UnsupportedDType: DTYPE_MISMATCH: Kiln has no dtype like numpy's complex128 (s...

InvalidArgument
>>> kiln.jit(3)
Traceback (most recent call last):
    ...
kiln.errors.InvalidArgument: BAD_ARGUMENT: jit takes a function, not 3

GraphError
>>> kiln.Graph().build()
Traceback (most recent call last):
    ...
kiln.errors.GraphError: BAD_ROOT: the graph has neither an output nor an update

ShapeError
>>> kiln.add([1, 2], [1, 2, 3])
Traceback (most recent call last):
    ...
kiln.errors.ShapeError: SHAPE_MISMATCH: add: (2,) and (3,) do not broadcast (axes, aligned...

PlaceError
>>> kiln.array([1, 2])[5]
Traceback (most recent call last):
    ...
kiln.errors.PlaceError: OUT_OF_BOUNDS: index 5 is outside an axis of 2

DTypeError
>>> client.buffer([1, 2], "uint8").fill(300)
Traceback (most recent call last):
    ...
kiln.errors.DTypeError: DTYPE_MISMATCH: uint8 does not hold 300

UnsupportedDType
>>> kiln.array(["text"])
Traceback (most recent call last):
    ...
kiln.errors.UnsupportedDType: DTYPE_MISMATCH: Kiln has no dtype like numpy's <U4 (encode t...

NotFound
>>> kiln.connect(address, device="CPU:9")
Traceback (most recent call last):
    ...
kiln.errors.NotFound: UNKNOWN_DEVICE: the server at ...

OutOfRange
>>> client.buffer([1.0]).read(start=1, count=1)
Traceback (most recent call last):
    ...
kiln.errors.OutOfRange: OUT_OF_BOUNDS: elements 1 to 2 of a buffer of 1

BufferFreed
>>> buffer = client.buffer([1.0])
>>> buffer.free()
>>> buffer.numpy()
Traceback (most recent call last):
    ...
kiln.errors.BufferFreed: UNKNOWN_HANDLE: the buffer was freed (it was freed, its session e...

FailedPrecondition
>>> issubclass(kiln.WrongVersion, kiln.FailedPrecondition)
True

ResourceExhausted
>>> issubclass(kiln.ResourceExhausted, MemoryError)
True

DeadlineExceeded
>>> issubclass(kiln.DeadlineExceeded, TimeoutError)
True

Unimplemented
>>> kiln.jit(knp.nonzero)(np.arange(3))
Traceback (most recent call last):
    ...
kiln.errors.Unimplemented: nonzero is no part of a jitted function: the shape of its resul...

PermissionDenied
>>> issubclass(kiln.PermissionDenied, PermissionError)
True

Unauthenticated
>>> issubclass(kiln.Unauthenticated, PermissionError)
True

WrongVersion
>>> issubclass(kiln.WrongVersion, kiln.FailedPrecondition)
True

Unavailable
>>> issubclass(kiln.Unavailable, ConnectionError)
True

NoServer
>>> issubclass(kiln.NoServer, kiln.Unavailable)
True

ConnectionLost
>>> issubclass(kiln.ConnectionLost, kiln.Unavailable)
True

Cancelled
>>> issubclass(kiln.Cancelled, kiln.KilnError)
True

Internal
>>> issubclass(kiln.Internal, kiln.KilnError)
True
"""
