"""What the tests of kiln.numpy share: a function of arrays beside numpy's, at once and in a jit."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import numpy as np
import support

import kiln

# Relative to the result, by its dtype.
TOLERANCE = {"float16": 2e-3, "float32": 4e-6, "float64": 2e-14}


class Agreement(support.ServerTest):
    FLAGS = ("--cpu_devices=2",)

    def same(self, found, wanted, what="", tolerance=None):
        """Trees of arrays of equal dtypes, shapes and values; signs of zeros, too."""
        if isinstance(wanted, (tuple, list)):
            self.assertEqual(len(found), len(wanted), what)
            for one, other in zip(found, wanted):
                self.same(one, other, what, tolerance)
            return
        wanted = np.asarray(wanted)
        self.assertIsInstance(found, kiln.Array, what)
        self.assertEqual((found.dtype.name, found.shape), (wanted.dtype.name, wanted.shape), what)
        if wanted.dtype.kind == "f":
            bound = TOLERANCE[wanted.dtype.name] if tolerance is None else tolerance
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=bound, atol=bound * 1e-3, err_msg=what)
            zero = (wanted == 0) & (np.asarray(found) == 0)
            np.testing.assert_array_equal(np.signbit(np.asarray(found)[zero]), np.signbit(wanted[zero]), err_msg=what)
        else:
            np.testing.assert_array_equal(np.asarray(found), wanted, err_msg=what)

    def agree(self, rows, *arrays, tolerance=None, at_once=True):
        """rows of (kiln's function, numpy's): each at once, if wanted, and all in one jitted function."""
        with np.errstate(all="ignore"):
            wanted = [theirs(*arrays) for _, theirs in rows]
        held = [kiln.array(array) for array in arrays]
        for at, (ours, _) in enumerate(rows if at_once else ()):
            self.same(ours(*held), wanted[at], "row %d at once" % at, tolerance)
        traced = kiln.jit(lambda *given: [ours(*given) for ours, _ in rows])(*arrays)
        for at, found in enumerate(traced):
            self.same(found, wanted[at], "row %d in a jit" % at, tolerance)

    def refuses(self, error, text, function, *args):
        with self.assertRaisesRegex(error, text):
            function(*args)
