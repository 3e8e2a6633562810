"""Examples of what makes arrays, and of dtypes."""

TEXT = """
shapes  `shape` is a size or a sequence of sizes.
raises  ShapeError for a negative size, UnsupportedDType for what is no dtype, FailedPrecondition without a client.

zeros
>>> kiln.zeros((2, 2), "int32")
Array([[0, 0],
       [0, 0]], dtype=int32)

ones
>>> kiln.ones(3)
Array([1., 1., 1.], dtype=float64)

full
>>> kiln.full((2,), 7)
Array([7, 7], dtype=int64)

empty
>>> knp.empty(2)
Array([0., 0.], dtype=float64)

shapes  The result has the shape of x, and its dtype unless another is named.
raises  UnsupportedDType for what is no dtype.

zeros_like
>>> kiln.zeros_like(kiln.array([1, 2]))
Array([0, 0], dtype=int64)

ones_like
>>> kiln.ones_like(kiln.array([1.5, 2.5]))
Array([1., 1.], dtype=float64)

full_like
>>> knp.full_like(kiln.array([1, 2]), 7)
Array([7, 7], dtype=int64)

empty_like
>>> knp.empty_like(kiln.array([1, 2]))
Array([0, 0], dtype=int64)

shapes  The result has the shape of what is given, as numpy reads it.
raises  UnsupportedDType for what numpy has and Kiln has not, FailedPrecondition without a client, ResourceExhausted
        where the device is full.

array
>>> kiln.array([[1.0, 2.0]]), kiln.array([1, 2], "float16")
(Array([[1., 2.]], dtype=float64), Array([1., 2.], dtype=float16))

asarray
>>> knp.asarray(np.float32([1.5]))
Array([1.5], dtype=float32)

from_dlpack
>>> kiln.from_dlpack(np.float32([1.5]))
Array([1.5], dtype=float32)

shapes  One axis.
raises  ValueError for a step of 0 or a negative number of elements, DTypeError for fractions in a dtype of integers.

arange
>>> kiln.arange(0, 10, 3)
Array([0, 3, 6, 9], dtype=int64)

linspace
>>> knp.linspace(0, 1, 5)
Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float64)

shapes  A matrix of that many rows and columns.
raises  GraphError for a negative size, UnsupportedDType for what is no dtype.

eye
>>> knp.eye(2)
Array([[1., 0.],
       [0., 1.]], dtype=float64)

identity
>>> knp.identity(2)
Array([[1., 0.],
       [0., 1.]], dtype=float64)

tri
>>> knp.tri(2, 3)
Array([[1., 0., 0.],
       [1., 1., 0.]], dtype=float64)

shapes  Of arrays of any shape, and of dtypes.
raises  UnsupportedDType for what is no dtype, DTypeError for a dtype of another kind.

DType
>>> kiln.float32, kiln.float32.itemsize, kiln.float32 == np.float32
(kiln.float32, 4, True)

dtype
>>> kiln.dtype("float32"), kiln.dtype(np.int8)
(kiln.float32, kiln.int8)

can_cast
>>> knp.can_cast(knp.int32, knp.float64)
True

finfo
>>> knp.finfo(knp.float16).max
65504.0

iinfo
>>> knp.iinfo(knp.int8).min
-128

isdtype
>>> knp.isdtype(knp.int8, "signed integer")
True

result_type
>>> knp.result_type(knp.int32, knp.float32)
kiln.float64

__array_namespace_info__
>>> knp.__array_namespace_info__().default_dtypes()["integral"]
kiln.int64
"""
