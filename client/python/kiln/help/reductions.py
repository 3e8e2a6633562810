"""Examples of what goes along axes: reductions, sums, sorting."""

TEXT = """
shapes  x has any shape. `axis` (one, several, or None for all) goes from it, or stays as 1 with keepdims.
raises  PlaceError, an IndexError, for an axis that is not there.

sum
>>> kiln.sum([[1, 2], [3, 4]], axis=0)
Array([4, 6], dtype=int64)

prod
>>> kiln.prod([[1, 2], [3, 4]], axis=1)
Array([ 2, 12], dtype=int64)

max
>>> kiln.max([[1, 5], [3, 4]], axis=1)
Array([5, 4], dtype=int64)

min
>>> kiln.min([[1, 5], [3, 4]])
Array(1, dtype=int64)

mean
>>> kiln.mean([[1, 2], [3, 4]], axis=0, keepdims=True)
Array([[2., 3.]], dtype=float64)

var
>>> kiln.var([1.0, 2.0, 6.0])
Array(4.66666667, dtype=float64)

std
>>> kiln.std([1.0, 2.0, 6.0], ddof=1)
Array(2.64575131, dtype=float64)

any
>>> kiln.any([[True, False], [False, False]], axis=1)
Array([ True, False], dtype=bool)

all
>>> kiln.all([[True, True], [False, True]], axis=1)
Array([ True, False], dtype=bool)

argmax
>>> kiln.argmax([[1, 5], [7, 4]], axis=1)
Array([1, 0], dtype=int64)

argmin
>>> kiln.argmin([[1, 5], [7, 4]], axis=1)
Array([0, 1], dtype=int64)

logsumexp
>>> kiln.logsumexp([0.0, 0.0])
Array(0.69314718, dtype=float64)

ptp
>>> knp.ptp([[1, 5], [7, 4]], axis=0)
Array([6, 1], dtype=int64)

count_nonzero
>>> knp.count_nonzero([[1, 0], [7, 4]], axis=1)
Array([1, 2], dtype=int64)

average
>>> knp.average([1.0, 3.0], weights=[3.0, 1.0])
Array(1.5, dtype=float64)

median
>>> knp.median([1.0, 9.0, 2.0])
Array(2., dtype=float64)

nansum
>>> knp.nansum([1.0, knp.nan, 2.0])
Array(3., dtype=float64)

nanmean
>>> knp.nanmean([1.0, knp.nan, 2.0])
Array(1.5, dtype=float64)

nanmax
>>> knp.nanmax([1.0, knp.nan, 2.0])
Array(2., dtype=float64)

nanmin
>>> knp.nanmin([1.0, knp.nan, 2.0])
Array(1., dtype=float64)

shapes  x has any shape with that axis, and so has the result.
raises  PlaceError, an IndexError, for an axis that is not there.

softmax
>>> kiln.softmax([[0.0, 0.0], [0.0, 100.0]]).round(3)
Array([[0.5, 0.5],
       [0. , 1. ]], dtype=float64)

log_softmax
>>> kiln.log_softmax([0.0, 0.0])
Array([-0.69314718, -0.69314718], dtype=float64)

layer_norm
>>> kiln.layer_norm([[1.0, 3.0]], epsilon=0.0)
Array([[-1.,  1.]], dtype=float64)

cumsum
>>> kiln.cumsum([1, 2, 3])
Array([1, 3, 6], dtype=int64)

cumprod
>>> knp.cumprod([1, 2, 3])
Array([1, 2, 6], dtype=int64)

cumulative_sum
>>> knp.cumulative_sum([1, 2, 3], include_initial=True)
Array([0, 1, 3, 6], dtype=int64)

cumulative_prod
>>> knp.cumulative_prod([1, 2, 3])
Array([1, 2, 6], dtype=int64)

sort
>>> knp.sort([3, 1, 2], descending=True)
Array([3, 2, 1], dtype=int64)

argsort
>>> knp.argsort([3, 1, 2])
Array([1, 2, 0], dtype=int64)

shapes  x has any shape with that axis; what is not wanted of it goes.
raises  PlaceError, an IndexError, for an axis that is not there; InvalidArgument for more than there are.

top_k
>>> knp.top_k([3, 9, 5], 2)
(Array([9, 5], dtype=int64), Array([1, 2], dtype=int64))

diff
>>> knp.diff([1, 4, 9])
Array([3, 5], dtype=int64)

shapes  x1 is sorted and has one axis; x2 has any shape, and so have the places.
raises  InvalidArgument for another side.

searchsorted
>>> knp.searchsorted([1, 3, 5], [3, 4], side="right")
Array([2, 2], dtype=int64)
"""
