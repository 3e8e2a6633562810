"""What holds at every level, against numpy."""

import unittest

import numpy as np

RNG = np.random.default_rng(0)
A = RNG.standard_normal((32, 64)).astype(np.float32)
B = RNG.standard_normal((64, 16)).astype(np.float32)


class LevelCases:
    """Mixed into a TestCase whose module has set the level. `plugin` is kiln.tinygrad."""

    plugin = None

    def setUp(self):
        self.plugin.reset_stats()

    def tearDown(self):
        self.assertEqual(dict(self.plugin.stats().fallbacks), {})

    def near(self, tensor, expected, tolerance=1e-5):
        np.testing.assert_allclose(tensor.numpy(), expected, rtol=tolerance, atol=tolerance)

    def test_arithmetic_and_matmul(self):
        from tinygrad import Tensor

        self.assertEqual((Tensor([1.0, 2.0, 3.0]) * 2 + 1).tolist(), [3, 5, 7])
        self.near(Tensor(A) @ Tensor(B), A @ B, 1e-4)
        self.near(Tensor(A).softmax().sum(1), np.ones(32))
        self.near(Tensor(A).max(0), A.max(0))

    def test_integers_wrap_and_divide_as_ir_says(self):
        from tinygrad import Tensor

        small = np.arange(9, dtype=np.uint8)
        self.assertEqual(Tensor(small).neg().tolist(), (-small).tolist())
        self.assertEqual((~Tensor(small.astype(np.uint64))).tolist(), (~small.astype(np.uint64)).tolist())
        x, y = np.array([7, -7, 7, -7], np.int32), np.array([3, 3, -3, -3], np.int32)
        self.assertEqual((Tensor(x) // Tensor(y)).tolist(), (x // y).tolist())
        self.assertEqual((Tensor(x) % Tensor(y)).tolist(), (x % y).tolist())
        self.assertEqual((Tensor(x) / Tensor(y)).dtype.name, "float")

    def test_updates_in_place(self):
        from tinygrad import Tensor

        t = Tensor.zeros(4, 4).contiguous().realize()
        t[1:3, 1:3] = 5
        expected = np.zeros((4, 4), np.float32)
        expected[1:3, 1:3] = 5
        self.near(t, expected)
        t.assign(t.T + t).realize()
        self.near(t, expected * 2)

    def test_a_part_of_a_buffer_becomes_another_part(self):
        from tinygrad import Tensor, TinyJit

        numbers = np.arange(8, dtype=np.int32)
        t = Tensor(numbers).realize()
        t[4:8].assign(t[0:4].contiguous())
        self.assertEqual(t.tolist(), [0, 1, 2, 3, 0, 1, 2, 3])
        t[1:5].assign(t[0:4].contiguous() + 10)
        self.assertEqual(t.tolist(), [0, 10, 11, 12, 13, 1, 2, 3])

        @TinyJit
        def move(x):
            t[2:6].assign(t[0:4].contiguous()).realize()
            t[0:4].assign(x).realize()

        for i in range(5):
            move(Tensor(numbers[:4] * i).realize())
        self.assertEqual(t.tolist(), [0, 4, 8, 12, 6, 9, 2, 3])
        self.plugin.reset_stats()  # two kernels that share bytes are no recording: call by call, and counted

    def test_indices_become_loads(self):
        from tinygrad import Tensor

        self.assertEqual(Tensor.arange(10).tolist(), list(range(10)))
        table, rows = RNG.standard_normal((50, 8)).astype(np.float32), np.array([3, 49, 0, 3], np.int32)
        self.near(Tensor(table)[Tensor(rows)], table[rows])
        self.near(Tensor(A).cumsum(1), A.cumsum(1), 1e-4)
        self.near(Tensor(A[0]).sort()[0], np.sort(A[0]))

    def test_gradients(self):
        from tinygrad import Tensor

        w = Tensor(B).is_param_()
        (Tensor(A) @ w).square().mean().backward()
        self.near(w.grad, 2 * A.T @ (A @ B) / (32 * 16), 1e-4)

    def test_a_captured_jit_replays(self):
        from tinygrad import Tensor, TinyJit

        @TinyJit
        def step(x):
            return ((x * 2).contiguous() + x.sum(0)).realize()

        for i in range(5):
            result = step(Tensor(A + i).realize())
            self.near(result, (A + i) * 2 + (A + i).sum(0), 1e-4)

    def test_random_numbers_are_the_same_for_a_seed(self):
        from tinygrad import Tensor

        Tensor.manual_seed(7)
        first = Tensor.rand(5, 3).numpy()
        Tensor.manual_seed(7)
        self.assertEqual(Tensor.rand(5, 3).tolist(), first.tolist())
        self.assertTrue(((first >= 0) & (first < 1)).all())

    def test_kernels_of_ones_own(self):
        from tinygrad import Tensor, TinyJit
        from tinygrad.uop.ops import KernelInfo, UOp

        def sums_and_products(sums, products, x, y):
            i = UOp.range(x.shape[0], 0)
            both = sums[i].store(x[i] + y[i]), products[i].store(x[i] * y[i])
            return UOp.group(*both).end(i).sink(arg=KernelInfo(name="sums_and_products"))

        def run(x, y):
            empty = Tensor.empty(64), Tensor.empty(64)
            sums, products, *_ = empty[0].custom_kernel(empty[1], x, y, fxn=sums_and_products)
            return (sums * 2 + products).realize()

        x, y = A[0], A[1]
        expected = (x + y) * 2 + x * y
        self.near(run(Tensor(x), Tensor(y)), expected)
        step = TinyJit(run)
        for _ in range(4):
            self.near(step(Tensor(x).realize(), Tensor(y).realize()), expected)

    def test_a_kernel_that_writes_to_views_of_one_buffer(self):
        from tinygrad import Tensor
        from tinygrad.uop.ops import KernelInfo, UOp

        def two_and_three(twos, threes, x):
            i = UOp.range(2, 0)
            both = twos[i].store(x[i] * 2), threes[i].store(x[i] * 3)
            return UOp.group(*both).end(i).sink(arg=KernelInfo(name="two_and_three"))

        whole = Tensor.empty(4).contiguous().realize()
        twos, *_ = whole[:2].custom_kernel(whole[2:], Tensor([1.0, 2.0]), fxn=two_and_three)
        self.assertEqual(twos.tolist(), [2.0, 4.0])
        # At level T that is tinygrad's own to schedule, and counted.
        self.plugin.reset_stats()

    def test_functions_precompiled(self):
        from tinygrad import Tensor, function

        @function(precompile=True)
        def both(x, y):
            return x @ y, x.sum(1, keepdim=True)

        product, sums = both(Tensor(A), Tensor(B))
        self.near(product + sums * 2, A @ B + A.sum(1, keepdims=True) * 2, 1e-4)
        again, _ = both(Tensor(A).relu(), Tensor(B))
        self.near(again.relu(), np.maximum(np.maximum(A, 0) @ B, 0), 1e-4)

    def test_a_function_with_a_kernel_and_memory_of_its_own(self):
        from tinygrad import Tensor, function
        from tinygrad.uop.ops import KernelInfo, UOp

        def doubled(out, x):
            i = UOp.range(x.shape[0], 0)
            return out[i].store(x[i] * 2).end(i).sink(arg=KernelInfo(name="doubled"))

        @function(precompile=True)
        def plus_one(x):
            out = Tensor.invalids(*x.shape, dtype=x.dtype, device=x.device)
            return Tensor.custom_kernel(out, x, fxn=doubled)[0] + 1

        first, second = plus_one(Tensor([1.0, 2.0])), plus_one(Tensor([3.0, 4.0]))
        Tensor.realize(first, second)
        self.assertEqual((first.tolist(), second.tolist()), ([3.0, 5.0], [7.0, 9.0]))

    def test_each_device_knows_its_number(self):
        from tinygrad import Tensor

        devices, square = ("KILN", "KILN:1"), A[:, :32]
        for axis in (0, 1):
            # A replicated tensor meets a sharded one: each device takes its part.
            total = Tensor(square).shard(devices, axis).realize() + Tensor(square.T).shard(devices, None).realize()
            self.near(total.contiguous().realize(), square + square.T)

    def test_what_a_jit_updates_is_no_intermediate(self):
        from tinygrad import Tensor, TinyJit

        total = Tensor([1.0]).realize()

        @TinyJit
        def add(x):
            nonlocal total
            total += x
            return total

        for i in range(4):
            add(Tensor([float(i)]))
        add.captured.free_intermediates()
        add(Tensor([4.0]))
        self.assertEqual(total.item(), 1 + 0 + 1 + 2 + 3 + 4)

    def test_work_is_counted(self):
        from tinygrad import GlobalCounters, Tensor

        x, y = Tensor(A).realize(), Tensor(B).realize()
        GlobalCounters.reset()
        (x @ y).realize()
        self.assertGreaterEqual(GlobalCounters.global_ops, 2 * 32 * 64 * 16)
        self.assertLess(GlobalCounters.global_ops, 10 * 32 * 64 * 16)
        self.assertEqual(GlobalCounters.global_mem, 4 * (32 * 64 + 64 * 16 + 32 * 16))

    def test_a_variable_needs_a_value(self):
        from tinygrad import Tensor, Variable

        with self.assertRaisesRegex(RuntimeError, "unbound"):
            (Tensor([1.0]) * Tensor(Variable("n", 1, 10))).tolist()

    def test_variables_are_as_wide_as_what_becomes_of_them(self):
        from tinygrad import Tensor, Variable, dtypes

        n = Tensor(Variable("n", 0, 10).bind(3))
        self.assertEqual((Tensor([1, 2], dtype=dtypes.int64) + n * 2**40).tolist(), [1 + 3 * 2**40, 2 + 3 * 2**40])
        self.assertEqual((Tensor([1, 2]) + n * 2**10).tolist(), [1 + 3 * 2**10, 2 + 3 * 2**10])
        size = Variable("size", 1, 8).bind(5)
        rolled = Tensor(np.arange(8, dtype=np.int32)).realize()[:size].roll((1 - 2**63,), (0,)).realize()[:5]
        self.assertEqual(rolled.tolist(), np.roll(np.arange(5), (1 - 2**63) % 5).tolist())

    def test_sizes_that_one_server_cannot_write_down(self):
        from tinygrad import Tensor, Variable

        steps = Tensor.arange(0, 10, Variable("step", 1, 3).bind(2)).clone("KILN")
        self.assertEqual(steps[:5].tolist(), [0, 2, 4, 6, 8])
        self.plugin.reset_stats()  # at level T that is tinygrad's own to schedule, and counted

    def test_a_function_of_invalid_is_invalid(self):
        from tinygrad import Tensor, dtypes
        from tinygrad.dtype import Invalid

        hole = Tensor.full((4,), Invalid, dtype=dtypes.float32, buffer=False)
        kept = (Tensor.arange(4) < 2).where(Tensor([1.0, 2.0, 3.0, 4.0]), hole.sqrt())
        self.assertEqual(kept.tolist()[:2], [1.0, 2.0])
