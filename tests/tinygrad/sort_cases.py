"""sort, argsort and topk: values, places and gradients are those of tinygrad's CPU, at any level."""

import numpy as np

RNG = np.random.default_rng(7)


class SortCases:
    plugin = None  # set by the module

    def tearDown(self):
        self.assertEqual(dict(self.plugin.stats().fallbacks), {})

    def same(self, array, **options):
        from tinygrad import Tensor

        got, wanted = ([part.numpy() for part in Tensor(array, device=name).sort(**options)] for name in ("KILN", "CPU"))
        for mine, theirs in zip(got, wanted):
            self.assertEqual((mine.dtype, mine.shape), (theirs.dtype, theirs.shape))
            np.testing.assert_array_equal(mine, theirs)

    def test_dtypes_and_ties(self):
        for i, kind in enumerate((np.float32, np.float16, np.int32, np.uint8, np.int64, np.bool_)):
            for count, descending in ((3, i % 2 == 0), (7, i % 2 == 1)):
                with self.subTest(kind=kind.__name__, count=count, descending=descending):
                    self.same(RNG.integers(0, 4, count).astype(kind), descending=descending)

    def test_axes(self):
        array = RNG.integers(0, 9, (3, 4, 2)).astype(np.float32)
        for axis in (0, 1, -1):
            self.same(array, dim=axis)
        self.same(array[:, :1], dim=1)

    def test_extremes(self):
        inf = float("inf")
        for descending in (False, True):
            self.same(np.float32([1, inf, 2, inf, -inf]), descending=descending)
            self.same(np.int32([2**31 - 1, -(2**31), 0, 2**31 - 1, -(2**31)]), descending=descending)
            self.same(np.uint8([255, 0, 255, 7, 0]), descending=descending)

    def test_nan_is_greatest(self):
        """tinygrad's CPU loses values here, and gives 0 for places."""
        from tinygrad import Tensor

        array = np.float32([3, np.nan, 1, np.nan, 2, np.inf])
        values, places = Tensor(array).sort()
        np.testing.assert_array_equal(values.numpy(), np.sort(array))
        np.testing.assert_array_equal(places.numpy(), [2, 4, 0, 5, 1, 3])
        self.assertEqual(Tensor(array).sort(descending=True)[1].tolist(), [1, 3, 5, 0, 4, 2])

    def test_argsort_and_topk(self):
        from tinygrad import Tensor

        array = RNG.integers(0, 40, (2, 12)).astype(np.float32)
        np.testing.assert_array_equal(Tensor(array).argsort().numpy(), np.argsort(array, kind="stable"))
        for largest in (True, False):
            got, wanted = (Tensor(array, device=name).topk(7, largest=largest) for name in ("KILN", "CPU"))
            for mine, theirs in zip(got, wanted):
                np.testing.assert_array_equal(mine.numpy(), theirs.numpy())

    def test_memory_is_not_of_all_with_all(self):
        """The server has 32 MiB; a byte for each two of these elements would be 64."""
        from tinygrad import Tensor

        array = np.random.default_rng(2).integers(0, 1000, 1 << 13).astype(np.float32)
        x, order = Tensor(array).realize(), np.argsort(array, kind="stable")
        values, places = x.sort()
        np.testing.assert_array_equal(values.numpy(), array[order])
        np.testing.assert_array_equal(places.numpy(), order)

    def test_gradients(self):
        """Of ties, too: each has its share."""
        from tinygrad import Tensor

        weights = RNG.standard_normal(9).astype(np.float32)
        for array in (RNG.standard_normal(9).astype(np.float32), np.float32([1, 2, 1, 0, 2, 2, 5, 1, 0])):
            found = []
            for name in ("KILN", "CPU"):
                x = Tensor(array, device=name)
                loss = (x.sort()[0] * Tensor(weights, device=name)).sum()
                found.append(loss.gradient(x)[0].numpy())
            np.testing.assert_allclose(found[0], found[1], rtol=1e-6)

    def test_inside_a_captured_step(self):
        from tinygrad import Tensor, TinyJit

        step = TinyJit(lambda x: tuple(part.realize() for part in (x * 2).sort(0)))
        for seed in range(4):
            array = np.random.default_rng(seed).standard_normal((6, 3)).astype(np.float32)
            values, places = step(Tensor(array).realize())
            np.testing.assert_array_equal(values.numpy(), np.sort(array * 2, 0))
            np.testing.assert_array_equal(places.numpy(), np.argsort(array, 0, kind="stable"))
