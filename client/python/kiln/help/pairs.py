"""Examples of functions of pairs of elements, and of three."""

TEXT = """
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
"""
