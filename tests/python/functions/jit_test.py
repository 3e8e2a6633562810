"""kiln.jit: what is traced when, what arguments and results may be, and what is said of mistakes."""

import collections
import dataclasses
import logging
import pathlib
import sys
import threading
import unittest
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln
from kiln.errors import BufferFreed, DTypeError, GraphError, InvalidArgument, ShapeError, UnsupportedDType

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Layer:
    w: Any
    b: Any = None


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **named):
        self.calls += 1
        return self.function(*args, **named)


def f32(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


class Jit(support.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def test_a_call_gives_what_numpy_gives(self):
        x, w = f32(3, 4), f32(4, 2, seed=1)
        y = kiln.jit(lambda x, w: kiln.maximum(x @ w, 0.0) * 2)(x, w)
        self.assertIs(type(y), kiln.Array)
        self.assertEqual((y.dtype, y.shape), (np.float32, (3, 2)))
        np.testing.assert_allclose(y, np.maximum(x @ w, 0) * 2, rtol=1e-6)

    def test_it_is_traced_once_for_each_form_shape_and_dtype(self):
        counted = Counted(lambda x, scale=1.0: x * scale)
        f = kiln.jit(counted)
        for value in (1.0, 2.0, 3.0):
            np.testing.assert_array_equal(f(np.float32([1, 2]) * value, value), np.float32([1, 2]) * value * value)
        self.assertEqual(counted.calls, 1)
        f(kiln.array(np.float32([1, 2])), 4.0)  # on a device or not is one
        self.assertEqual(counted.calls, 1)
        for again in (lambda: f(np.zeros(3, np.float32), 1.0), lambda: f(np.zeros(2), 1.0), lambda: f(np.float32([1, 2])),
                      lambda: f(np.float32([1, 2]), 1), lambda: f(np.float32([1, 2]), scale=1.0)):  # fmt: skip
            before = counted.calls
            again()
            again()
            self.assertEqual(counted.calls, before + 1)

    def test_equal_graphs_are_one_program(self):
        before = self.client.traffic["KernelService.Compile"].calls
        for _ in range(3):
            y = kiln.jit(lambda x: x * 7.25 - 1)(np.float32([1, 2]))
        np.testing.assert_array_equal(y, np.float32([6.25, 13.5]))
        self.assertEqual(self.client.traffic["KernelService.Compile"].calls, before + 1)

    def test_trees_go_in_and_come_out(self):
        @kiln.jit
        def f(layers, pair, *, scale):
            return {"y": [layer.w * scale for layer in layers], "p": Pair(pair.second, None), "l": Layer(pair.first + 1)}

        out = f([Layer(np.float32([1, 2])), Layer(np.float32([3]))], Pair(np.int32([5]), 2.5), scale=2.0)
        np.testing.assert_array_equal(out["y"][0], np.float32([2, 4]))
        np.testing.assert_array_equal(out["y"][1], np.float32([6]))
        self.assertEqual(float(out["p"].first), 2.5)
        self.assertIsNone(out["p"].second)
        self.assertIs(type(out["l"]), Layer)
        np.testing.assert_array_equal(out["l"].w, np.int32([6]))

    def test_numbers_take_the_dtype_that_they_meet(self):
        f = kiln.jit(lambda x, a: x * a + a / 2 - -a)
        for x in (np.float32([1, 2]), np.float64([1, 2])):
            y = f(x, 0.1)
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_allclose(y, x * 0.1 + 0.05 + 0.1, rtol=1e-6)
        self.assertEqual(f(np.int32([1, 2]), 2).dtype, np.float64)  # a / 2 is a fraction, as numpy has it
        add = kiln.jit(lambda x, a: x + a)
        self.assertEqual(add(np.int32([1, 2]), 2).dtype, np.int32)
        self.assertEqual(add(np.int32([1, 2]), 0.5).dtype, np.float64)
        self.assertEqual(add(np.float32([1]), np.float64(2)).dtype, np.float64)  # numpy's numbers are not weak
        self.assertEqual(add(1, 2).dtype, np.int64)
        np.testing.assert_array_equal(add(True, np.int32([4])), [5])

    def test_static_arguments(self):
        counted = Counted(lambda x, axis, how="sum": x.sum(axis=axis) if how == "sum" else x.max(axis=axis))
        f = kiln.jit(counted, static_argnums=1, static_argnames="how")
        x = f32(2, 3)
        for _ in range(2):
            np.testing.assert_allclose(f(x, 0), x.sum(0), rtol=1e-6)
            np.testing.assert_allclose(f(x, 1, how="max"), x.max(1))
        self.assertEqual(counted.calls, 2)
        shaped = kiln.jit(lambda x, shape: x.reshape(shape), static_argnames="shape")
        self.assertEqual(shaped(x, (3, 2)).shape, (3, 2))
        self.assertEqual(shaped(x, shape=(6,)).shape, (6,))
        with self.assertRaisesRegex(InvalidArgument, "static argument 1 of .* is a list, which has no hash"):
            shaped(x, [3, 2])

    def test_static_values_that_are_equal_and_differ(self):
        scale = kiln.jit(lambda x, by: x * by[0], static_argnums=-1)
        found = [scale(np.int32([2]), by) for by in ((2,), (2.0,), (True,))]
        self.assertEqual([one.dtype for one in found], ["int32", "float64", "int32"])
        self.assertEqual([np.signbit(scale(np.ones(1), (by,))).item() for by in (0.0, -0.0, 0.0)], [False, True, False])
        self.assertEqual(len(scale._cache), 5)
        with self.assertRaises(InvalidArgument):
            kiln.jit(lambda x: x, static_argnums=-2)

    def test_what_a_function_finds_is_as_it_was(self):
        table, small = kiln.array(f32(3)), np.float32([1, 2, 3])
        large = f32(1000)
        f = kiln.jit(lambda x: (x + table * small, large[:3] + x))
        for x in (f32(3, seed=1), f32(3, seed=2)):
            a, b = f(x)
            np.testing.assert_allclose(a, x + table.numpy() * small, rtol=1e-6)
            np.testing.assert_allclose(b, large[:3] + x, rtol=1e-6)
        self.assertLess(len(next(iter(f._cache)).program.graph.SerializeToString()), 1000)

    def test_results_that_are_arguments_and_constants(self):
        x = kiln.array([1.0, 2.0])
        same, number, table = kiln.jit(lambda x: (x, 3, np.arange(3)))(x)
        np.testing.assert_array_equal(same, [1, 2])
        self.assertEqual((int(number), table.tolist()), (3, [0, 1, 2]))
        np.testing.assert_array_equal(kiln.jit(lambda x: x)(np.int8([4])), [4])
        self.assertIsNone(kiln.jit(lambda x: None)(x))

    def test_a_result_that_comes_twice(self):
        a, b = kiln.jit(lambda x: (x + 1, x + 1))(np.zeros(2))
        self.assertEqual(kiln.jit(lambda x: x * 10, donate_argnums=0)(a).tolist(), [10, 10])
        self.assertEqual(b.tolist(), [1, 1])

    def test_numpys_functions_are_kilns(self):
        x = f32(2, 3)
        f = lambda x: np.exp(x) + np.sum(x, axis=0) - np.ones(3, np.float32) * np.maximum(x, 0) + np.where(x > 0, x, 1)  # noqa: E731
        np.testing.assert_allclose(kiln.jit(f)(x), f(x), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(kiln.jit(lambda x: np.concatenate([x, np.sqrt(np.abs(x))]).reshape(np.size(x), 2))(x),
                                   np.concatenate([x, np.sqrt(np.abs(x))]).reshape(6, 2), rtol=1e-6)  # fmt: skip
        np.testing.assert_allclose(kiln.grad(lambda x: np.mean(np.square(x)))(x), x / 3, rtol=1e-6)

    def test_devices(self):
        x = kiln.array([1.0, 2.0], device="CPU:1")
        found = kiln.array([10.0, 20.0], device="CPU:1")
        y = kiln.jit(lambda x, n: x * n + found + np.zeros(1000)[:2])(x, 3)
        self.assertEqual((y.device, y.tolist()), ("CPU:1", [13, 26]))
        self.assertEqual(((x + 1)[1:].device, (x * np.float64(2)).tolist()), ("CPU:1", [2, 4]))
        moved = kiln.array(x, device="CPU:0")
        self.assertEqual((moved.device, moved.tolist(), kiln.array(x, device="CPU:1") is x), ("CPU:0", [1, 2], True))
        with self.assertRaisesRegex(InvalidArgument, "is on CPU:0, the program takes it on CPU:1"):
            x + kiln.array([1.0, 2.0])

    def test_threads_share_functions(self):
        f = kiln.jit(lambda x: (x * 2 + 1).sum())
        wrong = []

        def work(seed):
            for n in range(1, 9):
                x = np.full(n, float(seed))
                if f(x).item() != n * (2 * seed + 1) or (kiln.array(x) - 1).tolist() != [seed - 1.0] * n:
                    wrong.append((seed, n))

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_within_another_it_is_the_function(self):
        inner = kiln.jit(lambda x: x * 2)
        self.assertEqual(kiln.jit(lambda x: inner(x) + inner(x + 1))(3.0).item(), 14)
        self.assertEqual(len(inner._cache), 0)

    def test_methods(self):
        class Model:
            scale = 3

            @kiln.jit(static_argnums=0)
            def __call__(self, x):
                return x * self.scale

        self.assertEqual(Model()(2.0).item(), 6)

    def test_a_chain_waits_for_nothing(self):
        f, x = kiln.jit(lambda x: x + 1.0), kiln.array(np.zeros(4, np.float32))
        f(x)
        self.client.fence()
        before = {name: row.calls for name, row in self.client.traffic.items()}
        for _ in range(20):
            x = f(x)
        self.assertEqual(x.tolist(), [20.0] * 4)  # which the last one brings along
        moved = {name: row.calls - before.get(name, 0) for name, row in self.client.traffic.items()}
        self.assertEqual((moved["KernelService.Execute"], moved.get("BufferService.Read", 0)), (20, 0))
        self.assertEqual(moved["KernelService.Compile"], 0)

    def test_traces_are_logged(self):
        f = kiln.jit(lambda x, n: x * n, static_argnums=1)
        with self.assertLogs("kiln.jit", logging.DEBUG) as logged:
            f(np.zeros((2, 3), np.float32), 2)
            f(np.zeros((2, 3), np.float32), 2)
            f(np.zeros(4), 3)
        self.assertEqual([row.levelname for row in logged.records], ["DEBUG", "INFO", "DEBUG"])
        self.assertIn("traced <lambda>(float32[2,3])", logged.output[0])
        self.assertIn("<lambda> is traced again, the 2. time: for (float64[4], 1=3)", logged.output[1])


class Donated(support.ServerTest):
    def test_memory_is_used_again(self):
        step = kiln.jit(lambda u, v: (u + v, v.sum()), donate_argnums=0)
        u, v = kiln.array(f32(100)), kiln.array(f32(100, seed=1))
        wanted, memory = u.numpy() + v.numpy(), u.buffer.handle
        new, total = step(u, v)
        self.assertEqual(new.buffer.handle, memory)
        np.testing.assert_allclose(new, wanted, rtol=1e-6)
        np.testing.assert_allclose(total, v.numpy().sum(), rtol=1e-4)
        with self.assertRaisesRegex(BufferFreed, "donated to <lambda>.*use what the function returned"):
            u.numpy()
        with self.assertRaises(BufferFreed):
            u + 1
        self.assertIn("donated", repr(u))

    def test_trees_and_static_arguments_beside(self):
        f = kiln.jit(lambda n, p, x: {"a": p["a"] * n + x, "b": p["b"] + 1}, static_argnums=0, donate_argnums=1)
        p, x = {"a": kiln.array(np.ones(3)), "b": kiln.array(np.zeros(2))}, kiln.array(np.ones(3))
        memory = [p["a"].buffer.handle, p["b"].buffer.handle]
        q = f(3, p, x)
        self.assertEqual((q["a"].tolist(), q["b"].tolist(), x.tolist()), ([4] * 3, [1] * 2, [1] * 3))
        self.assertEqual([q["a"].buffer.handle, q["b"].buffer.handle], memory)
        for one in p.values():
            with self.assertRaises(BufferFreed):
                one.numpy()

    def test_one_that_fits_no_result_is_freed(self):
        x = kiln.array(f32(10))
        kept = self.in_use()
        total = kiln.jit(lambda x: x.sum(), donate_argnums=0)(x)
        self.assertEqual(self.in_use()[1], kept[1])  # one came, one went
        self.assertEqual(total.shape, ())

    def test_by_name_and_without_use(self):
        advance = kiln.jit(lambda u, v=None: u + 1, donate_argnums=(0, -1))
        for call in (lambda u, v: advance(u=u, v=v), lambda u, v: advance(u, v)):
            u, v = kiln.zeros(4), kiln.ones(3)
            self.assertEqual(call(u, v).tolist(), [1, 1, 1, 1])
            for gone in (u, v):
                with self.assertRaises(BufferFreed):
                    gone.numpy()

    def test_two_change_places(self):
        swap = kiln.jit(lambda a, b: (b, a), donate_argnums=(0, 1))
        self.assertEqual([one.tolist() for one in swap(kiln.zeros(2), kiln.ones(2))], [[1, 1], [0, 0]])

    def test_what_others_see_is_not_written(self):
        step = kiln.jit(lambda u: u + 1.0, donate_argnums=0)
        u = kiln.array(np.zeros(4))
        row = u[1:3]
        self.assertEqual(step(u).tolist(), [1] * 4)
        self.assertEqual(row.tolist(), [0, 0])
        twice = kiln.jit(lambda a, b: a + 2 * b, donate_argnums=0)
        x = kiln.array(np.ones(3))
        self.assertEqual(twice(x, x).tolist(), [3] * 3)
        self.assertEqual(step(np.zeros(2)).tolist(), [1, 1])

    def test_stencils_read_what_was_before(self):
        step = kiln.jit(lambda u: kiln.pad(u[1:] + u[:-1], [(0, 1)]), donate_argnums=0)
        u, wanted = kiln.array(np.arange(6.0)), np.arange(6.0)
        for _ in range(5):
            u, wanted = step(u), np.pad(wanted[1:] + wanted[:-1], (0, 1))
        np.testing.assert_array_equal(u, wanted)


class Mistakes(support.ServerTest):
    def raises(self, error, text, function, *args, **options):
        with self.assertRaisesRegex(error, text):
            kiln.jit(function, **options)(*args)

    def test_values_that_python_wants(self):
        x = np.float32([1, 2])
        self.raises(TypeError, "kiln.where, or give a jitted function .* a static argument", lambda x: 1 if x.sum() > 0 else 2, x)
        self.raises(TypeError, "no number before its program has run", lambda x: float(x[0]), x)
        self.raises(TypeError, "no number before its program", lambda n: range(n), 3)
        self.raises(DTypeError, "a size is an integer.*static argument", lambda x, n: x.reshape((n, 1)), x, 2)
        for read in (np.asarray, lambda x: x.numpy(), lambda x: x[0].item()):
            self.raises(TypeError, "make it an output", read, x)
        self.raises(TypeError, "numpy.spacing is of arrays, and Kiln has none", lambda x: np.spacing(x), x)
        self.raises(TypeError, "numpy.unwrap is of arrays.*kiln has none", lambda x: np.unwrap(x), x)
        self.raises(DTypeError, "a place is an integer, not bool.*kiln.where", lambda x: x[x > 1], x)

    def test_values_that_leave(self):
        left = []
        kiln.jit(lambda x: left.append(x * 2))(1.0)
        for use in (lambda: left[0] + 1, lambda: kiln.jit(lambda x: x + left[0])(1.0), lambda: kiln.exp(left[0])):
            with self.assertRaisesRegex(GraphError, "a traced value has left <lambda>.*return it"):
                use()
        with self.assertRaisesRegex(InvalidArgument, "argument 0 of <lambda> is a traced value"):
            kiln.jit(lambda x: x)(left[0])
        self.raises(GraphError, "a traced value has left", lambda x: left[0], 1.0)

    def test_what_is_no_argument_and_no_result(self):
        self.raises(UnsupportedDType, "argument 0 of <lambda> is a str.*static_argnums", lambda x: x, "text")
        self.raises(UnsupportedDType, r"argument 1\['a'\] of <lambda> is a set", lambda x, y: x, 1.0, {"a": set()})
        self.raises(UnsupportedDType, "complex", lambda x: x, np.array([1j]))
        self.raises(GraphError, r"its result\['a'\] is a str", lambda x: {"a": "text"}, 1.0)
        with self.assertRaisesRegex(InvalidArgument, "cannot be static and donated"):
            kiln.jit(lambda x: x, static_argnums=0, donate_argnums=0)
        with self.assertRaisesRegex(InvalidArgument, "jit takes a function"):
            kiln.jit(3)

    def test_what_the_function_raises_comes_through_and_leaves_no_trace(self):
        self.raises(ShapeError, "do not broadcast", lambda x, y: x + y, np.zeros(2), np.zeros(3))
        self.raises(ZeroDivisionError, "", lambda x: 1 / 0, 1.0)
        self.assertEqual(kiln.jit(lambda x: x + 1)(1.0).item(), 2)

    def test_arrays_of_two_clients(self):
        with kiln.connect(self.server.address) as other:
            theirs, mine = kiln.array([1.0]), kiln.array([1.0], client=self.client)
            self.raises(InvalidArgument, "not of that at", lambda x, y: x + y, theirs, mine)
            self.raises(GraphError, "another client", lambda x: x + mine, theirs)
            with self.assertRaisesRegex(InvalidArgument, "not of that at"):
                theirs + mine
            self.assertIs(kiln.current(), other)
        self.assertIs(kiln.current(), self.client)


if __name__ == "__main__":
    unittest.main()
