"""Examples of what moves elements, and computes none."""

TEXT = """
shapes  The result has as many elements as x; one size may be -1, for what is left.
raises  ShapeError for another number of elements.

reshape
>>> kiln.reshape([1, 2, 3, 4], (2, -1))
Array([[1, 2],
       [3, 4]], dtype=int64)

flatten
>>> kiln.flatten([[1, 2], [3, 4]])
Array([1, 2, 3, 4], dtype=int64)

ravel
>>> knp.ravel([[1, 2], [3, 4]])
Array([1, 2, 3, 4], dtype=int64)

shapes  The axes of x in another order.
raises  PlaceError, an IndexError, for an axis that is not there; ShapeError for one that is missing.

transpose
>>> kiln.transpose([[1, 2], [3, 4]])
Array([[1, 3],
       [2, 4]], dtype=int64)

permute
>>> kiln.permute(np.zeros((2, 3, 4)), 2, 0, 1).shape
(4, 2, 3)

permute_dims
>>> knp.permute_dims(np.zeros((2, 3, 4)), (2, 0, 1)).shape
(4, 2, 3)

swapaxes
>>> kiln.swapaxes(np.zeros((2, 3, 4)), 0, -1).shape
(4, 3, 2)

moveaxis
>>> kiln.moveaxis(np.zeros((2, 3, 4)), 0, -1).shape
(3, 4, 2)

rot90
>>> knp.rot90([[1, 2], [3, 4]])
Array([[2, 4],
       [1, 3]], dtype=int64)

shapes  Axes of size 1 come or go; all others stay.
raises  PlaceError, an IndexError, for an axis that is not there; ShapeError where one that goes is not 1.

expand_dims
>>> kiln.expand_dims([1, 2], 0)
Array([[1, 2]], dtype=int64)

squeeze
>>> kiln.squeeze([[1, 2]], 0)
Array([1, 2], dtype=int64)

shapes  Axes of size 1, and those that are missing in front, get the size that is wanted.
raises  ShapeError where x does not broadcast to that shape.

broadcast_to
>>> kiln.broadcast_to([1, 2], (2, 2))
Array([[1, 2],
       [1, 2]], dtype=int64)

expand
>>> kiln.expand([[1], [2]], 2, 2)
Array([[1, 1],
       [2, 2]], dtype=int64)

broadcast_arrays
>>> knp.broadcast_arrays([1, 2], [[3], [4]])
[Array([[1, 2],
       [1, 2]], dtype=int64), Array([[3, 3],
       [4, 4]], dtype=int64)]

meshgrid
>>> knp.meshgrid([1, 2], [3, 4])
[Array([[1, 2],
       [1, 2]], dtype=int64), Array([[3, 3],
       [4, 4]], dtype=int64)]

shapes  The shape stays; elements change their places.
raises  PlaceError, an IndexError, for an axis that is not there.

flip
>>> kiln.flip([[1, 2], [3, 4]], 1)
Array([[2, 1],
       [4, 3]], dtype=int64)

roll
>>> knp.roll([1, 2, 3], 1)
Array([3, 1, 2], dtype=int64)

tril
>>> knp.tril([[1, 2], [3, 4]])
Array([[1, 0],
       [3, 4]], dtype=int64)

triu
>>> knp.triu([[1, 2], [3, 4]])
Array([[1, 2],
       [0, 4]], dtype=int64)

shapes  An axis gets longer by what is put beside it, or shorter.
raises  ShapeError where widths or ranges do not fit the axes.

pad
>>> kiln.pad([1, 2], [(1, 2)])
Array([0, 1, 2, 0, 0], dtype=int64)

shrink
>>> kiln.shrink([1, 2, 3, 4], [(1, 3)])
Array([2, 3], dtype=int64)

tile
>>> kiln.tile([1, 2], (2,))
Array([1, 2, 1, 2], dtype=int64)

repeat
>>> knp.repeat([1, 2], 2)
Array([1, 1, 2, 2], dtype=int64)

shapes  Arrays of one shape, but for the axis: they lie one after the other in it.
raises  ShapeError where they differ elsewhere.

concatenate
>>> kiln.concatenate([[1, 2], [3]])
Array([1, 2, 3], dtype=int64)

concat
>>> knp.concat([[1, 2], [3]])
Array([1, 2, 3], dtype=int64)

stack
>>> kiln.stack([[1, 2], [3, 4]], axis=1)
Array([[1, 3],
       [2, 4]], dtype=int64)

shapes  A list of parts of x along the axis.
raises  ShapeError where the parts are not equal; PlaceError, an IndexError, for an axis that is not there.

split
>>> knp.split([1, 2, 3, 4], 2)
[Array([1, 2], dtype=int64), Array([3, 4], dtype=int64)]

array_split
>>> knp.array_split([1, 2, 3], 2)
[Array([1, 2], dtype=int64), Array([3], dtype=int64)]

unstack
>>> knp.unstack([[1, 2], [3, 4]])
(Array([1, 2], dtype=int64), Array([3, 4], dtype=int64))

shapes  The places are integers of any shape, from 0 or from the end; that shape stands for the axis.
raises  DTypeError for places that are no integers.

take
>>> kiln.take([10, 20, 30], [2, 0], 0)
Array([30, 10], dtype=int64)

take_along_axis
>>> kiln.take_along_axis([[10, 20], [30, 40]], [[1], [0]], 1)
Array([[20],
       [30]], dtype=int64)

shapes  x has any shape; the result has one axis, of as many places as there are.
raises  Unimplemented in a jitted function, whose shapes are known before values.

nonzero
>>> knp.nonzero([0, 3, 4])
(Array([1, 2], dtype=int64),)

flatnonzero
>>> knp.flatnonzero([[0, 3], [4, 0]])
Array([1, 2], dtype=int64)

unique_values
>>> knp.unique_values([3, 1, 3])
Array([1, 3], dtype=int64)

unique_counts
>>> knp.unique_counts([3, 1, 3]).counts
Array([1, 2], dtype=int64)

unique_inverse
>>> knp.unique_inverse([3, 1, 3]).inverse_indices
Array([1, 0, 1], dtype=int64)

unique_all
>>> knp.unique_all([3, 1, 3]).indices
Array([1, 0], dtype=int64)

shapes  Arrays of equal sizes but for the axis along which they are joined.
raises  ShapeError for other sizes.

vstack
>>> knp.vstack([[1, 2], [3, 4]])
Array([[1, 2],
       [3, 4]], dtype=int64)

hstack
>>> knp.hstack([[1, 2], [3]])
Array([1, 2, 3], dtype=int64)

dstack
>>> knp.dstack([[1, 2], [3, 4]])
Array([[[1, 3],
        [2, 4]]], dtype=int64)

column_stack
>>> knp.column_stack([[1, 2], [3, 4]])
Array([[1, 3],
       [2, 4]], dtype=int64)

append
>>> knp.append([1, 2], [3])
Array([1, 2, 3], dtype=int64)

shapes  x has any shape; axes of size 1 are added.
raises  GraphError for what is no array.

atleast_1d
>>> knp.atleast_1d(np.float64(3))
Array([3.], dtype=float64)

atleast_2d
>>> knp.atleast_2d([1, 2])
Array([[1, 2]], dtype=int64)

atleast_3d
>>> knp.atleast_3d([1, 2]).shape
(1, 2, 1)

shapes  The two axes become one, the last, of as many elements as the diagonal has.
raises  ShapeError for an array of fewer than two axes.

diagonal
>>> kiln.numpy.diagonal([[1, 2], [3, 4]])
Array([1, 4], dtype=int64)

trace
>>> kiln.numpy.trace([[1, 2], [3, 4]])
Array(5, dtype=int64)

shapes  A vector of n gives (n, n), or more beside the middle; a matrix its diagonal.
raises  ShapeError for an array of more than two axes.

diag
>>> knp.diag([1, 2])
Array([[1, 0],
       [0, 2]], dtype=int64)

diagflat
>>> knp.diagflat([[1], [2]])
Array([[1, 0],
       [0, 2]], dtype=int64)
"""
