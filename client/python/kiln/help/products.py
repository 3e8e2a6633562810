"""Examples of products of arrays: matrices, convolutions, linear algebra."""

TEXT = """
shapes  (…, n, k) @ (…, k, m) is (…, n, m); one axis alone is a row or a column; the others broadcast.
raises  ShapeError where the sizes differ.

matmul
>>> kiln.matmul([[1, 2], [3, 4]], [10, 1])
Array([12, 34], dtype=int64)

dot
>>> kiln.dot([1, 2, 3], [4, 5, 6])
Array(32, dtype=int64)

shapes  Both have the axes that are summed over, of equal sizes; the others are in the result, x1's first.
raises  ShapeError where the sizes differ.

tensordot
>>> knp.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]], axes=1)
Array([[1, 2],
       [3, 4]], dtype=int64)

vecdot
>>> knp.vecdot([[1, 2], [3, 4]], [10, 1])
Array([12, 34], dtype=int64)

inner
>>> knp.inner([1, 2], [3, 4])
Array(11, dtype=int64)

einsum
>>> knp.einsum("ij,jk->ik", [[1, 2], [3, 4]], [[1, 0], [0, 2]])
Array([[1, 4],
       [3, 8]], dtype=int64)

shapes  (n) and (m) are (n, m); with more axes, each with each.
raises  UnsupportedDType for what is no array of numbers.

outer
>>> knp.outer([1, 2], [3, 4])
Array([[3, 4],
       [6, 8]], dtype=int64)

kron
>>> knp.kron([1, 10], [1, 2])
Array([ 1,  2, 10, 20], dtype=int64)

shapes  x is (batch, channels, *sizes), one to three sizes; weights are (out, channels / groups, *sizes).
raises  ShapeError where channels or groups do not fit.

conv
>>> knp.conv(np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)))
Array([[[[4., 4.],
         [4., 4.]]]], dtype=float64)

shapes  x is (batch, channels, *sizes), one to three sizes, and so is the result.
raises  ShapeError for windows that are larger.

max_pool
>>> knp.max_pool(np.arange(16.0).reshape(1, 1, 4, 4), 2)
Array([[[[ 5.,  7.],
         [13., 15.]]]], dtype=float64)

avg_pool
>>> knp.avg_pool(np.arange(16.0).reshape(1, 1, 4, 4), 2)
Array([[[[ 2.5,  4.5],
         [10.5, 12.5]]]], dtype=float64)

shapes  x is (…, n, n), in a jitted function of up to 512 rows.
raises  ShapeError for matrices that are not square, Unimplemented in a jitted function for more rows.

cholesky
>>> knp.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]])
Array([[2., 0.],
       [1., 2.]], dtype=float64)

det
>>> knp.linalg.det([[1.0, 2.0], [3.0, 4.0]])
Array(-2., dtype=float64)

slogdet
>>> knp.linalg.slogdet([[1.0, 2.0], [3.0, 4.0]])
SlogdetResult(sign=Array(-1., dtype=float64), logabsdet=Array(0.69314718, dtype=float64))

inv
>>> knp.linalg.inv([[2.0, 0.0], [0.0, 4.0]])
Array([[0.5 , 0.  ],
       [0.  , 0.25]], dtype=float64)

matrix_power
>>> knp.linalg.matrix_power([[1, 1], [1, 0]], 5)
Array([[8, 5],
       [5, 3]], dtype=int64)

shapes  x1 is (…, n, n), in a jitted function of up to 512 rows; x2 is (n) or (…, n, m), and so is the result.
raises  ShapeError where they do not fit, Unimplemented in a jitted function for more rows.

solve
>>> knp.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0])
Array([1. , 0.5], dtype=float64)

shapes  x is (…, n, m), or (…, n, n) for eigenvalues; it is read, and numpy computes.
raises  LinAlgError, numpy's, for another shape; Unimplemented in a jitted function.

eigh
>>> knp.linalg.eigh([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
Array([2., 3.], dtype=float64)

eigvalsh
>>> knp.linalg.eigvalsh([[2.0, 0.0], [0.0, 3.0]])
Array([2., 3.], dtype=float64)

svd
>>> knp.linalg.svd([[3.0, 0.0], [0.0, 4.0]]).S
Array([4., 3.], dtype=float64)

svdvals
>>> knp.linalg.svdvals([[3.0, 0.0], [0.0, 4.0]])
Array([4., 3.], dtype=float64)

pinv
>>> knp.linalg.pinv([[2.0], [0.0]])
Array([[0.5, 0. ]], dtype=float64)

matrix_rank
>>> knp.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]])
Array(1, dtype=int64)

shapes  x is (…, n, m), in a jitted function of up to 512 rows or columns.
raises  ShapeError for what is no matrix, Unimplemented in a jitted function for more of both.

qr
>>> abs(knp.linalg.qr([[3.0, 0.0], [4.0, 5.0]]).R)
Array([[5., 4.],
       [0., 3.]], dtype=float64)

shapes  x is (…, n, m).
raises  ShapeError for what is no matrix.

matrix_norm
>>> knp.linalg.matrix_norm([[3.0, 0.0], [0.0, 4.0]])
Array(5., dtype=float64)

matrix_transpose
>>> knp.matrix_transpose([[1, 2], [3, 4]])
Array([[1, 3],
       [2, 4]], dtype=int64)

diagonal
>>> knp.linalg.diagonal([[1, 2], [3, 4]])
Array([1, 4], dtype=int64)

trace
>>> knp.linalg.trace([[1, 2], [3, 4]])
Array(5, dtype=int64)

shapes  x has any shape; `axis` goes from it, or stays as 1 with keepdims.
raises  PlaceError, an IndexError, for an axis that is not there.

norm
>>> knp.linalg.norm([3.0, 4.0])
Array(5., dtype=float64)

vector_norm
>>> knp.linalg.vector_norm([[3.0, 4.0], [6.0, 8.0]], axis=1)
Array([ 5., 10.], dtype=float64)

shapes  Both have three elements along the axis; the others broadcast.
raises  ShapeError for another size.

cross
>>> knp.linalg.cross([1, 0, 0], [0, 1, 0])
Array([0, 0, 1], dtype=int64)
"""
