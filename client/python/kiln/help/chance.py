"""Examples of random numbers."""

TEXT = """
shapes  A key is a uint64 of shape (); use one once, for numbers or for keys.
raises  DTypeError for what is no key, InvalidArgument for a seed that is no uint64.

random.key
>>> knp.random.key(7)
Array(7, dtype=uint64)

random.split
>>> knp.random.split(knp.random.key(7))
Array([ 8693874831913282401, 18275402881772689176], dtype=uint64)

random.fold_in
>>> knp.random.fold_in(knp.random.key(7), 3)
Array(3894067546078413925, dtype=uint64)

shapes  The result has `shape`, () unless it is given.
raises  DTypeError for what is no key, or a dtype without such numbers.

random.uniform
>>> knp.random.uniform(knp.random.key(7), 2)
Array([0.7352802 , 0.31072348], dtype=float32)

random.normal
>>> knp.random.normal(knp.random.key(7), (2,)).round(5)
Array([1.46071, 0.8615 ], dtype=float32)

random.randint
>>> knp.random.randint(knp.random.key(7), 4, 0, 10)
Array([0, 1, 7, 2], dtype=int64)

random.bernoulli
>>> knp.random.bernoulli(knp.random.key(7), 0.5, 3)
Array([False,  True,  True], dtype=bool)

random.exponential
>>> knp.random.exponential(knp.random.key(7), 2).round(4)
Array([0.3075, 1.1689], dtype=float32)

random.gumbel
>>> knp.random.gumbel(knp.random.key(7), 2).round(4)
Array([ 1.1793, -0.156 ], dtype=float32)

random.laplace
>>> knp.random.laplace(knp.random.key(7), 2).round(4)
Array([ 0.6359, -0.4757], dtype=float32)

shapes  x is a number, whose range it is, or an array, whose rows are taken; the result has its shape.
raises  DTypeError for what is no key.

random.permutation
>>> knp.random.permutation(knp.random.key(7), 5)
Array([2, 4, 1, 0, 3], dtype=int64)

shapes  The result has the shape of x.
raises  DTypeError for what is no key, PlaceError for an axis that is not there.

random.shuffle
>>> knp.random.shuffle(knp.random.key(7), [[1, 2, 3], [4, 5, 6]], axis=1)
Array([[3, 2, 1],
       [6, 5, 4]], dtype=int64)

shapes  a is a number or (…, n, …), n along the axis; p is (n); the result has `shape` in the place of the axis.
raises  InvalidArgument for p that is below 0 or not 1 in all, or more elements than there are without replace; ShapeError
        for p of another shape, DTypeError for what is no key.

random.choice
>>> knp.random.choice(knp.random.key(7), 3, 4, p=[0.2, 0.3, 0.5])
Array([2, 1, 0, 2], dtype=int64)

shapes  logits has an axis of the possibilities; the result has the others, or `shape`, to which they broadcast.
raises  ShapeError for another shape, InvalidArgument for no possibility, DTypeError for what is no key.

random.categorical
>>> knp.random.categorical(knp.random.key(7), np.log([0.2, 0.3, 0.5]), shape=(4,))
Array([0, 0, 2, 2], dtype=int64)

shapes  Parameters broadcast to each other, and to `shape` where it is given; the result has that.
raises  ShapeError where they do not, DTypeError for what is no key or a dtype without such numbers.

random.truncated_normal
>>> knp.random.truncated_normal(knp.random.key(7), -1.0, [0.0, 2.0]).round(4)
Array([-0.2285,  0.5915], dtype=float32)

random.gamma
>>> knp.random.gamma(knp.random.key(7), [0.5, 5.0]).round(4)
Array([0.1664, 2.3572], dtype=float32)

random.beta
>>> knp.random.beta(knp.random.key(7), 2.0, 3.0, (2,)).round(4)
Array([0.0431, 0.1017], dtype=float32)

random.poisson
>>> knp.random.poisson(knp.random.key(7), [2.5, 1000.0])
Array([   1, 1000], dtype=int64)

shapes  alpha is (…, k); the result has its shape, or (*shape, k).
raises  ShapeError for alpha without an axis or elements, DTypeError as for gamma.

random.dirichlet
>>> knp.random.dirichlet(knp.random.key(7), [1.0, 2.0, 3.0]).round(4)
Array([0.1569, 0.3341, 0.5091], dtype=float32)

shapes  mean is (…, n), cov (…, n, n) of up to 512; the result has the shape of mean, or (*shape, n).
raises  ShapeError where they do not fit, Unimplemented for more variables, DTypeError as for normal.

random.multivariate_normal
>>> knp.random.multivariate_normal(knp.random.key(7), [0.0, 10.0], [[1.0, 0.5], [0.5, 1.0]]).round(4)
Array([ 1.4607, 11.4764], dtype=float32)
"""
