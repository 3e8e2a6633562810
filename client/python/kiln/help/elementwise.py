"""Examples of functions of each element."""

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

shapes  x has any shape, and so has the result, in another dtype.
raises  UnsupportedDType for what is no dtype.

astype
>>> kiln.astype([1.7, -1.7], kiln.int32)
Array([ 1, -1], dtype=int32)

bitcast
>>> kiln.bitcast(np.float32([1.0]), "uint32")
Array([1065353216], dtype=uint32)
"""
