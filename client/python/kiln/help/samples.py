"""Examples of what is told of samples, and of tables."""

TEXT = """
shapes  x has any shape, whose axes go, or stay as 1 with keepdims; those of q are in front.
raises  InvalidArgument for a q outside of the whole, ShapeError where there are no elements.

quantile
>>> knp.quantile([1.0, 2.0, 4.0], 0.25)
Array(1.5, dtype=float64)

percentile
>>> knp.percentile([[1.0, 2.0], [3.0, 8.0]], [0, 50], axis=1)
Array([[1. , 3. ],
       [1.5, 5.5]], dtype=float64)

shapes  x has any shape; the result an element for each bin, and one bound more.
raises  InvalidArgument for a number of bins below 1, or a range that ends before it begins.

histogram
>>> knp.histogram([1, 2, 2, 5], 2)
(Array([3, 1], dtype=int64), Array([1., 3., 5.], dtype=float64))

histogram_bin_edges
>>> knp.histogram_bin_edges([1, 2, 2, 5], 4)
Array([1., 2., 3., 4., 5.], dtype=float64)

shapes  x has one axis; the result as many elements as the greatest says, or minlength.
raises  InvalidArgument for what is below 0; Unimplemented in a jitted function without minlength.

bincount
>>> knp.bincount([1, 4, 4])
Array([0, 1, 0, 0, 2], dtype=int64)

shapes  The result has a row for each element that is not 0, of as many columns as x has axes.
raises  Unimplemented in a jitted function.

argwhere
>>> knp.argwhere([[0, 1], [2, 0]])
Array([[0, 1],
       [1, 0]], dtype=int64)

shapes  The result has the shape of the first; the second has one axis, but for isin.
raises  ShapeError for bounds of more than one axis, or points that do not go together.

digitize
>>> knp.digitize([0.2, 5.0], [0.0, 1.0, 2.0])
Array([1, 3], dtype=int64)

isin
>>> knp.isin([1, 2, 3], [3, 1])
Array([ True, False,  True], dtype=bool)

interp
>>> knp.interp([0.5, 9.0], [0.0, 1.0], [10.0, 20.0])
Array([15., 20.], dtype=float64)

shapes  The axis goes.
raises  PlaceError, an IndexError, for an axis that is not there.

trapezoid
>>> knp.trapezoid([1.0, 2.0, 3.0])
Array(4., dtype=float64)

shapes  f has two elements or more along each axis; the result, or each of its list, has f's shape.
raises  ShapeError for an axis of fewer.

gradient
>>> knp.gradient([1.0, 2.0, 4.0])
Array([1. , 1.5, 2. ], dtype=float64)

shapes  n variables give (n, n), one gives ().
raises  ShapeError for an array of more than two axes.

cov
>>> knp.cov([[1.0, 2.0], [2.0, 6.0]])
Array([[0.5, 2. ],
       [2. , 8. ]], dtype=float64)

corrcoef
>>> knp.corrcoef([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])[0]
Array([ 1., -1.], dtype=float64)

shapes  Both have one axis; the result n + m - 1 elements, or as many as the longer with "same".
raises  InvalidArgument for another mode, ShapeError for more axes.

convolve
>>> knp.convolve([1, 2, 3], [1, 1])
Array([1, 3, 5, 3], dtype=int64)

correlate
>>> knp.correlate([1, 2, 3], [0, 1])
Array([2, 3], dtype=int64)

shapes  Both have equally many elements; the result has shape ().
raises  ShapeError for other numbers of them.

vdot
>>> knp.vdot([[1, 2]], [[3], [4]])
Array(11, dtype=int64)

shapes  The result has the shape of x.
raises  GraphError for what is no array.

nan_to_num
>>> knp.nan_to_num([1.0, float("nan")])
Array([1., 0.], dtype=float64)
"""
