"""Examples of functions of each element, and of pairs of elements."""

TEXT = """
shapes  x has any shape, and so has the result. Integers become float64, a narrow float stays as it is.
raises  UnsupportedDType for what is no array of numbers.

exp
>>> kiln.exp([0.0, 1.0])
Array([1.        , 2.71828183], dtype=float64)

exp2
>>> kiln.exp2([3.0, 0.5])
Array([8.        , 1.41421356], dtype=float64)

expm1
>>> knp.expm1([0.0, 1e-8])
Array([0.e+00, 1.e-08], dtype=float64)

log
>>> kiln.log([1.0, 10.0])
Array([0.        , 2.30258509], dtype=float64)

log2
>>> kiln.log2([8.0, 0.5])
Array([ 3., -1.], dtype=float64)

log10
>>> knp.log10([1.0, 1000.0])
Array([0., 3.], dtype=float64)

log1p
>>> knp.log1p([0.0, 1.0])
Array([0.        , 0.69314718], dtype=float64)

sqrt
>>> kiln.sqrt([4.0, 2.0])
Array([2.        , 1.41421356], dtype=float64)

rsqrt
>>> kiln.rsqrt([4.0, 0.25])
Array([0.5, 2. ], dtype=float64)

reciprocal
>>> kiln.reciprocal([4.0, -0.5])
Array([ 0.25, -2.  ], dtype=float64)

sin
>>> kiln.sin([0.0, 1.0])
Array([0.        , 0.84147098], dtype=float64)

cos
>>> kiln.cos([0.0, 1.0])
Array([1.        , 0.54030231], dtype=float64)

tan
>>> knp.tan([0.0, 1.0])
Array([0.        , 1.55740772], dtype=float64)

acos
>>> knp.acos([1.0, 0.0])
Array([0.        , 1.57079633], dtype=float64)

asin
>>> knp.asin([0.0, 1.0])
Array([0.        , 1.57079633], dtype=float64)

atan
>>> knp.atan([0.0, 1.0])
Array([0.        , 0.78539816], dtype=float64)

sinh
>>> knp.sinh([0.0, 1.0])
Array([0.        , 1.17520119], dtype=float64)

cosh
>>> knp.cosh([0.0, 1.0])
Array([1.        , 1.54308063], dtype=float64)

tanh
>>> kiln.tanh([0.0, 1.0])
Array([0.        , 0.76159416], dtype=float64)

acosh
>>> knp.acosh([1.0, 2.0])
Array([0.       , 1.3169579], dtype=float64)

asinh
>>> knp.asinh([0.0, 1.0])
Array([0.        , 0.88137359], dtype=float64)

atanh
>>> knp.atanh([0.0, 0.5])
Array([0.        , 0.54930614], dtype=float64)

erf
>>> kiln.erf([0.0, 1.0])
Array([0.        , 0.84270079], dtype=float64)

sigmoid
>>> kiln.sigmoid([0.0, 2.0])
Array([0.5       , 0.88079708], dtype=float64)

silu
>>> kiln.silu([0.0, 2.0])
Array([0.        , 1.76159416], dtype=float64)

gelu
>>> kiln.gelu([0.0, 2.0]).round(4)
Array([0.    , 1.9546], dtype=float64)

degrees
>>> knp.degrees([0.0, knp.pi])
Array([  0., 180.], dtype=float64)

radians
>>> knp.radians([0.0, 180.0])
Array([0.        , 3.14159265], dtype=float64)

shapes  x has any shape, and so has the result, of its dtype.
raises  UnsupportedDType for what is no array of numbers.

abs
>>> kiln.abs([-2, 3])
Array([2, 3], dtype=int64)

square
>>> kiln.square([-2, 3])
Array([4, 9], dtype=int64)

negative
>>> kiln.negative([-2.0, 3.0])
Array([ 2., -3.], dtype=float64)

positive
>>> knp.positive([-2, 3])
Array([-2,  3], dtype=int64)

sign
>>> kiln.sign([-2.5, 0.0, 3.0])
Array([-1.,  0.,  1.], dtype=float64)

floor
>>> kiln.floor([-1.5, 1.5])
Array([-2.,  1.], dtype=float64)

ceil
>>> kiln.ceil([-1.5, 1.5])
Array([-1.,  2.], dtype=float64)

trunc
>>> kiln.trunc([-1.5, 1.5])
Array([-1.,  1.], dtype=float64)

round
>>> knp.round([1.25, 2.5], 1)
Array([1.2, 2.5], dtype=float64)

relu
>>> kiln.relu([-2.0, 3.0])
Array([0., 3.], dtype=float64)

detach
>>> kiln.grad(lambda x: x * kiln.detach(x))(3.0)
Array(3., dtype=float64)

real
>>> knp.real([1.0, 2.0])
Array([1., 2.], dtype=float64)

imag
>>> knp.imag([1.0, 2.0])
Array([0., 0.], dtype=float64)

conj
>>> knp.conj([1.0, 2.0])
Array([1., 2.], dtype=float64)

invert
>>> kiln.invert([0, 5])
Array([-1, -6], dtype=int64)

bitwise_invert
>>> knp.bitwise_invert([0, 5])
Array([-1, -6], dtype=int64)

bitwise_not
>>> knp.bitwise_not([0, 5])
Array([-1, -6], dtype=int64)

shapes  x has any shape; the result has it, and is of bools.
raises  UnsupportedDType for what is no array of numbers.

isnan
>>> kiln.isnan([1.0, knp.nan])
Array([False,  True], dtype=bool)

isinf
>>> knp.isinf([1.0, knp.inf])
Array([False,  True], dtype=bool)

isfinite
>>> knp.isfinite([1.0, knp.inf, knp.nan])
Array([ True, False, False], dtype=bool)

signbit
>>> knp.signbit([-0.0, 1.0])
Array([ True, False], dtype=bool)

logical_not
>>> kiln.logical_not([True, False])
Array([False,  True], dtype=bool)

shapes  The operands broadcast as numpy's do: axes, aligned at the last, are equal or 1. The result is of the dtype in
        which they meet.
raises  ShapeError where they do not broadcast.

add
>>> kiln.add([[1], [2]], [10, 20])
Array([[11, 21],
       [12, 22]], dtype=int64)

subtract
>>> kiln.subtract([3, 4], 1)
Array([2, 3], dtype=int64)

multiply
>>> kiln.multiply([3, 4], [2.0, 0.5])
Array([6., 2.], dtype=float64)

divide
>>> kiln.divide([3, 4], 2)
Array([1.5, 2. ], dtype=float64)

floor_divide
>>> kiln.floor_divide([7, -7], 2)
Array([ 3, -4], dtype=int64)

remainder
>>> kiln.remainder([7, -7], 4)
Array([3, 1], dtype=int64)

fmod
>>> knp.fmod([7.0, -7.0], 4.0)
Array([ 3., -3.], dtype=float64)

divmod
>>> knp.divmod([7, -7], 4)
(Array([ 1, -2], dtype=int64), Array([3, 1], dtype=int64))

pow
>>> knp.pow([2.0, 3.0], 2)
Array([4., 9.], dtype=float64)

power
>>> kiln.power([2.0, 3.0], 2)
Array([4., 9.], dtype=float64)

maximum
>>> kiln.maximum([1, 5], [3, 4])
Array([3, 5], dtype=int64)

minimum
>>> kiln.minimum([1, 5], [3, 4])
Array([1, 4], dtype=int64)

atan2
>>> knp.atan2([1.0, -1.0], 1.0)
Array([ 0.78539816, -0.78539816], dtype=float64)

hypot
>>> knp.hypot([3.0, 5.0], [4.0, 12.0])
Array([ 5., 13.], dtype=float64)

copysign
>>> knp.copysign([1.0, 2.0], [-1.0, 1.0])
Array([-1.,  2.], dtype=float64)

nextafter
>>> knp.nextafter([1.0], [2.0]) > 1.0
Array([ True], dtype=bool)

logaddexp
>>> knp.logaddexp([0.0], [0.0])
Array([0.69314718], dtype=float64)

logaddexp2
>>> knp.logaddexp2([1.0], [1.0])
Array([2.], dtype=float64)

heaviside
>>> knp.heaviside([-1.0, 0.0, 2.0], 0.5)
Array([0. , 0.5, 1. ], dtype=float64)

bitwise_and
>>> kiln.bitwise_and([12, 5], 6)
Array([4, 4], dtype=int64)

bitwise_or
>>> kiln.bitwise_or([12, 5], 6)
Array([14,  7], dtype=int64)

bitwise_xor
>>> kiln.bitwise_xor([12, 5], 6)
Array([10,  3], dtype=int64)

left_shift
>>> kiln.left_shift([1, 5], 2)
Array([ 4, 20], dtype=int64)

right_shift
>>> kiln.right_shift([16, 5], 2)
Array([4, 1], dtype=int64)

bitwise_left_shift
>>> knp.bitwise_left_shift([1, 5], 2)
Array([ 4, 20], dtype=int64)

bitwise_right_shift
>>> knp.bitwise_right_shift([16, 5], 2)
Array([4, 1], dtype=int64)

shapes  The operands broadcast as numpy's do; the result is of bools.
raises  ShapeError where they do not broadcast.

equal
>>> kiln.equal([1, 2], [1, 3])
Array([ True, False], dtype=bool)

not_equal
>>> kiln.not_equal([1, 2], [1, 3])
Array([False,  True], dtype=bool)

less
>>> kiln.less([1, 2], 2)
Array([ True, False], dtype=bool)

less_equal
>>> kiln.less_equal([1, 2], 2)
Array([ True,  True], dtype=bool)

greater
>>> kiln.greater([1, 3], 2)
Array([False,  True], dtype=bool)

greater_equal
>>> kiln.greater_equal([1, 2], 2)
Array([False,  True], dtype=bool)

logical_and
>>> kiln.logical_and([True, True], [True, False])
Array([ True, False], dtype=bool)

logical_or
>>> kiln.logical_or([False, True], [False, False])
Array([False,  True], dtype=bool)

logical_xor
>>> knp.logical_xor([True, True], [True, False])
Array([False,  True], dtype=bool)

isclose
>>> knp.isclose([1.0, 2.0], [1.0 + 1e-9, 2.1])
Array([ True, False], dtype=bool)

allclose
>>> knp.allclose([1.0, 2.0], [1.0 + 1e-9, 2.0])
Array(True, dtype=bool)

shapes  All operands broadcast as numpy's do; bounds that are None do not bound.
raises  ShapeError where they do not broadcast.

clip
>>> kiln.clip([1, 5, 9], 2, 6)
Array([2, 5, 6], dtype=int64)

where
>>> kiln.where([True, False], [1, 2], 0)
Array([1, 0], dtype=int64)

select
>>> knp.select([np.array([True, False, False]), np.array([True, True, False])], [1, 2], 3)
Array([1, 2, 3], dtype=int64)

shapes  x has any shape, and so has the result, in another dtype.
raises  UnsupportedDType for what is no dtype.

astype
>>> kiln.astype([1.7, -1.7], kiln.int32)
Array([ 1, -1], dtype=int32)

bitcast
>>> kiln.bitcast(np.float32([1.0]), "uint32")
Array([1065353216], dtype=uint32)
"""
