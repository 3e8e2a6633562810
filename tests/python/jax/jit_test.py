"""kiln.jax.jit: what is traced when, what goes in and comes out, and what is said of what it does not take."""

import subprocess
import sys
import unittest

import numpy as np
from support_jax import JaxTest, jax, support

import kiln

if jax is not None:
    import jax.numpy as jnp
    from jax import lax

    import kiln.jax


class Jit(JaxTest):
    def test_kiln_alone_does_not_import_jax(self):
        code = "import sys; sys.path.insert(0, %r); import kiln; print('jax' in sys.modules)" % str(support.PACKAGE)
        found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
        self.assertEqual(found.strip(), "False")

    def test_a_function_is_traced_once_for_each_type_of_its_arguments(self):
        traced = []

        @kiln.jax.jit
        def double(x):
            traced.append(x.dtype)
            return x * 2

        for value in (np.float32([1, 2]), np.float32([3, 4]), np.int32([5, 6]), 1.5, 2.5, 7):
            self.assertEqual(np.asarray(double(value)).tolist(), (np.asarray(value) * 2).tolist())
        self.assertEqual([kind.name for kind in traced], ["float32", "int32", "float32", "int32"])
        self.assertEqual(repr(double), "<kiln.jax.jit of double, traced 4 times>")

    def test_results_are_arrays_that_go_back_in(self):
        step = kiln.jax.jit(lambda x: x * x + 1)
        x = step(np.float32([1, 2]))
        self.assertIs(type(x), kiln.Array)
        self.assertEqual(step(x).tolist(), [5.0, 26.0])
        self.assertEqual((x + 1).tolist(), [3.0, 6.0])  # and Kiln's functions take them
        self.assertEqual(jnp.asarray(x).tolist(), [2.0, 5.0])

    def test_arrays_of_jax_trees_and_names(self):
        function = kiln.jax.jit(lambda p, *, rate: {"w": p["w"] * rate, "b": [p["b"], None]})
        found = function({"w": jnp.arange(3), "b": np.bool_(True)}, rate=2)
        self.assertEqual((found["w"].tolist(), found["b"][0].item(), found["b"][1]), ([0, 2, 4], True, None))
        self.assertEqual(found["w"].dtype, np.int32)

    def test_wide_numbers_are_narrow_as_jax_has_them(self):
        found = kiln.jax.jit(lambda x, n: (x + 1, n + 1))(np.float64([0.5]), kiln.array(np.int64([3])))
        self.assertEqual([one.dtype.name for one in found], ["float32", "int32"])
        self.assertEqual([one.tolist() for one in found], [[1.5], [4]])

    def test_static_arguments(self):
        function = kiln.jax.jit(
            lambda x, how, times: getattr(jnp, how)(x) * times, static_argnums=1, static_argnames="times"
        )
        x = np.float32([1, 5, 2])
        self.assertEqual(function(x, "max", times=2).item(), 10.0)
        self.assertEqual(function(x, "sum", times=3).item(), 24.0)
        last = kiln.jax.jit(lambda x, how: getattr(jnp, how)(x), static_argnums=-1)
        self.assertEqual(last(x, "min").item(), 1.0)

    def test_static_arguments_are_meant_by_place_and_by_name(self):
        by_name = kiln.jax.jit(lambda x, how="sum": getattr(jnp, how)(x), static_argnames="how")
        by_place = kiln.jax.jit(lambda x, how="sum": getattr(jnp, how)(x), static_argnums=1)
        x = np.float32([1, 5, 2])
        for function in (by_name, by_place):
            found = [function(x, "max").item(), function(x, how="min").item(), function(x).item()]
            self.assertEqual(found, [5.0, 1.0, 8.0])

    def test_an_integer_that_its_dtype_does_not_hold_is_an_error(self):
        same = kiln.jax.jit(lambda x: x)
        for number in (2**40, -(2**31) - 1, 2**70):
            with self.assertRaises(OverflowError):
                same(number)
        self.assertEqual((same(2**31 - 1).item(), same(True).item()), (2**31 - 1, True))
        with jax.enable_x64(True):
            self.assertEqual(same(2**40).item(), 2**40)

    def test_a_donated_argument_is_gone(self):
        step = kiln.jax.jit(lambda x, y: x + y, donate_argnums=0)
        x = kiln.array(np.float32([1, 2]))
        memory = x.buffer
        y = step(x, np.float32([10, 20]))
        self.assertEqual(y.tolist(), [11.0, 22.0])
        self.assertIs(y.buffer, memory)
        with self.assertRaises(kiln.BufferFreed):
            x.numpy()

    def test_what_comes_out_as_it_went_in(self):
        x = np.float32([1, 2])
        same, constant, again = kiln.jax.jit(lambda x: (x, jnp.arange(3), x))(x)
        self.assertEqual((same.tolist(), constant.tolist(), again.tolist()), ([1.0, 2.0], [0, 1, 2], [1.0, 2.0]))

    def test_large_constants_are_sent_once(self):
        table = np.arange(5000, dtype=np.float32)
        look = kiln.jax.jit(lambda i: jnp.asarray(table)[i])
        self.assertEqual(look(np.int32([7, 4999])).tolist(), [7.0, 4999.0])
        sent = lambda: sum(row.sent_bytes for row in self.client.traffic.values())  # noqa: E731
        before = sent()
        self.assertEqual(look(np.int32([8, 1])).tolist(), [8.0, 1.0])
        self.assertLess(sent() - before, 2000)

    def test_keys_go_in_and_their_words_come_out(self):
        key = jax.random.key(5)
        words = kiln.jax.jit(lambda k: jax.random.split(k))(key)
        self.assertEqual(words.tolist(), jax.random.key_data(jax.random.split(key)).tolist())
        draw = kiln.jax.jit(lambda k: jax.random.uniform(k, (3,)))
        self.assertEqual(draw(words[0]).tolist(), jax.random.uniform(jax.random.split(key)[0], (3,)).tolist())

    def test_within_what_jax_and_kiln_trace(self):
        inner = kiln.jax.jit(lambda x: jnp.sin(x) * x)
        self.assertAlmostEqual(float(jax.grad(inner)(2.0)), float(jax.grad(lambda x: jnp.sin(x) * x)(2.0)), places=6)
        given = kiln.array(np.float32([2]))
        for x in (2.0, given):  # no argument is jax's
            slope = jax.grad(lambda y, x=x: jnp.sum(y * inner(x)))(1.0)
            self.assertAlmostEqual(float(slope), 2 * np.sin(2), places=6)
        self.assertEqual(jax.jit(lambda x: kiln.jax.jit(lambda y: y + x)(2.0))(1.0).item(), 3.0)
        self.assertEqual(float(jax.grad(lambda x: kiln.jax.jit(lambda y: x * x * y)(2.0))(3.0)), 12.0)
        outer = kiln.jit(lambda x: kiln.exp(inner(x)))
        np.testing.assert_allclose(outer(np.float32([0.5, 1])).numpy(), np.exp(np.sin([0.5, 1]) * [0.5, 1]), rtol=1e-6)

    def test_what_has_no_rule_is_refused_with_its_name_its_parameters_and_the_line(self):
        def spectrum(x):
            y = x * 2
            return jnp.linalg.svd(y)

        with self.assertRaises(kiln.Unimplemented) as caught:
            kiln.jax.jit(spectrum)(np.eye(3, dtype=np.float32))
        line = spectrum.__code__.co_firstlineno + 2
        self.assertEqual(caught.exception.code, "NOT_IMPLEMENTED")
        for word in ("jax's svd(float32[3,3])[", "full_matrices=True", "jit_test.py:%d" % line, "spectrum)"):
            self.assertIn(word, caught.exception.message)

    def test_complex_numbers_are_refused(self):
        with self.assertRaisesRegex(kiln.Unimplemented, "complex64"):
            kiln.jax.jit(lambda x: x.astype(jnp.complex64))(np.float32([1]))
        with self.assertRaises(kiln.UnsupportedDType):
            kiln.jax.jit(lambda x: x)(np.complex64([1]))

    def test_a_loop_that_the_device_would_have_to_end_is_refused(self):
        halve = lambda x: lax.while_loop(lambda x: x > 1, lambda x: x / 2, x)  # noqa: E731
        with self.assertRaisesRegex(kiln.Unimplemented, "how often it runs depends on values"):
            kiln.jax.jit(halve)(8.0)
        with self.assertRaisesRegex(kiln.Unimplemented, "2000 steps, and at most 1024"):
            kiln.jax.jit(lambda x: lax.scan(lambda c, _: (c + 1, None), x, None, length=2000))(0.0)

    def test_what_is_no_array_is_refused_by_its_place(self):
        with self.assertRaisesRegex(kiln.UnsupportedDType, r"argument\[0\]\[1\]\['w'\] of f is a str"):

            def f(x, p):
                return x

            kiln.jax.jit(f)(1.0, {"w": "no"})

    def test_float64_where_jax_has_it(self):
        with jax.enable_x64(True):
            found = kiln.jax.jit(lambda x: jnp.exp(x) + jnp.arange(2))(np.float64([0.1, 0.2]))
        self.assertEqual(found.dtype.name, "float64")
        np.testing.assert_allclose(found.numpy(), np.exp([0.1, 0.2]) + [0, 1], rtol=1e-14)


if __name__ == "__main__":
    unittest.main()
