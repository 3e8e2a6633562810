"""Three models trained a hundred steps with SGD, momentum and Adam: on one device and on four as jax's CPU trains them,
within 1e-5."""

import unittest

import numpy as np
from support_jax import DEVICES, JaxTest, jax

if jax is not None:
    import kiln.jax
    import models

STEPS = 100


def trained(jitted, begin, weights, batches):
    """The state after some batches, and their losses."""
    state, losses = begin(weights), []
    for batch in batches:
        state, loss = jitted(state, batch)
        losses.append(loss)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)], [float(np.asarray(loss)) for loss in losses]


class Models(JaxTest):
    def check(self, name):
        (step, begin), weights, make = models.MODELS[name]
        batches = models.batches(make, STEPS)
        wanted, losses = trained(jax.jit(step), begin, weights, batches)
        begun = map(np.asarray, jax.tree.leaves(begin(weights)))
        self.assertGreater(max(np.abs(a - b).max() for a, b in zip(wanted, begun)), 1e-2)
        for devices in ((), DEVICES):
            ours = (
                kiln.jax.jit(step, devices=devices, split_argnums=1, deterministic=True)
                if devices
                else kiln.jax.jit(step)
            )
            with self.subTest(devices=devices):
                found, ours_losses = trained(ours, begin, weights, batches)
                np.testing.assert_allclose(ours_losses, losses, rtol=0, atol=1e-5)
                for a, b in zip(found, wanted):
                    self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
                    np.testing.assert_allclose(a, b, rtol=0, atol=1e-5)

    def test_an_mlp_with_momentum(self):
        self.check("mlp")

    def test_a_convolutional_net_with_sgd(self):
        self.check("cnn")

    def test_a_transformer_with_adam(self):
        self.check("transformer")

    def test_pmap_with_pmean(self):
        (_, _), weights, make = models.MODELS["mlp"]
        batch = models.batches(make, 1)[0]

        def step(p, batch):
            value, slopes = jax.value_and_grad(models.mlp)(p, batch)
            slopes = jax.lax.pmean(slopes, "devices")
            return jax.tree.map(lambda a, slope: a - 0.1 * slope, p, slopes), jax.lax.pmean(value, "devices")

        rows = jax.tree.map(lambda x: x.reshape(4, 8, *x.shape[1:]), batch)
        found, loss = kiln.jax.pmap(step, "devices", devices=DEVICES, in_axes=(None, 0), out_axes=None)(weights, rows)
        value, slopes = jax.value_and_grad(models.mlp)(weights, batch)
        self.assertAlmostEqual(float(np.asarray(loss)), float(value), delta=1e-5)
        for name, weight in weights.items():
            np.testing.assert_allclose(
                np.asarray(found[name]), weight - 0.1 * np.asarray(slopes[name]), rtol=0, atol=1e-5
            )
            self.assertEqual(found[name].devices, tuple(DEVICES))

    def test_rows_that_devices_do_not_share_equally_are_refused(self):
        total = kiln.jax.jit(lambda x: x.sum(), devices=DEVICES, split_argnums=0)
        self.assertEqual(np.asarray(total(np.ones(8, np.float32))), 8.0)
        with self.assertRaisesRegex(kiln.ShapeError, "6 rows are not 4 equal shares"):
            total(np.ones(6, np.float32))

    def test_pmap_takes_a_row_for_each_device(self):
        double = lambda x, y=0: x * 2  # noqa: E731
        self.assertEqual(np.asarray(kiln.jax.pmap(double, devices=DEVICES)(np.arange(4))).tolist(), [0, 2, 4, 6])
        for axes in (1, {"x": 0}, (0, 1), (0, {"x": 0}), None):
            with self.assertRaisesRegex(kiln.InvalidArgument, "in_axes is 0, or a list of 0 and None"):
                kiln.jax.pmap(double, devices=DEVICES, in_axes=axes)
        for rows in (8, 3):
            with self.assertRaisesRegex(kiln.ShapeError, r"a row for each, not an argument of shape \(%d,\)" % rows):
                kiln.jax.pmap(double, devices=DEVICES)(np.arange(rows))

    def test_what_reads_within_the_rows_of_a_share(self):
        x = np.arange(40, dtype=np.float32).reshape(8, 5) * 7 % 11
        for function in (lambda x: jax.numpy.argsort(x, 1), lambda x: jax.numpy.cumsum(x, 1)):
            ours = kiln.jax.jit(function, devices=DEVICES, split_argnums=0)
            self.assertEqual(np.asarray(ours(x)).tolist(), np.asarray(function(x)).tolist())
        for function in (lambda x: jax.numpy.sort(x, 1), lambda x: x[:, np.array([1, 3])]):
            with self.assertRaisesRegex(kiln.InvalidArgument, "INDEX along axis 0, which is split over devices"):
                kiln.jax.jit(function, devices=DEVICES, split_argnums=0)(x)


if __name__ == "__main__":
    unittest.main()
