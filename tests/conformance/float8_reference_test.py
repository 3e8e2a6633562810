"""reference_scalars.py's reading of the 8-bit floats against ml_dtypes."""

import math
import pathlib
import sys
import unittest

import ml_dtypes
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import reference_scalars  # noqa: E402

PEERS = {
    "float8_e4m3": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3_fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2_fnuz": ml_dtypes.float8_e5m2fnuz,
}


class Float8(unittest.TestCase):

    def test_every_pattern_has_the_same_value(self):
        for dtype, peer in PEERS.items():
            theirs = np.arange(256, dtype=np.uint8).view(peer).astype(np.float64)
            for bits in range(256):
                ours = float(reference_scalars.decode(dtype, bits))
                if math.isnan(ours):
                    self.assertTrue(math.isnan(theirs[bits]), (dtype, bits))
                else:
                    self.assertEqual(ours.hex(), float(theirs[bits]).hex(), (dtype, bits))

    # Beyond the greatest value the two differ on purpose: ml_dtypes gives NaN or
    # infinity where docs/ir.md saturates.
    def test_rounding(self):
        rng = np.random.default_rng(1)
        values = np.concatenate([
            rng.uniform(-500, 500, 2000),
            rng.standard_normal(4000) * 2.0**rng.integers(-20, 6, 4000),
        ]).astype(np.float32)
        for dtype, peer in PEERS.items():
            most = float(reference_scalars.decode(dtype, reference_scalars.greatest(dtype)))
            within = values[np.abs(values) <= most]
            for value, bits in zip(within, within.astype(peer).view(np.uint8)):
                self.assertEqual(reference_scalars.encode(dtype, float(value)), int(bits), (dtype, value))
            self.assertEqual(reference_scalars.encode(dtype, 1e9), reference_scalars.greatest(dtype))


if __name__ == "__main__":
    unittest.main()
