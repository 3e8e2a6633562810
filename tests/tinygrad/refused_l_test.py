"""What is refused, level L."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import device
import refused_cases


def setUpModule():
    RefusedTest.plugin = device.start("L", "--cpu_devices=2")


class RefusedTest(refused_cases.RefusedCases, unittest.TestCase):
    level = "L"

    def test_a_loop_that_ends_by_a_condition(self):
        """Kiln has none, and there is no level below."""
        import kiln
        from kiln.tinygrad.linear_level import KilnRenderer
        from tinygrad import Device, dtypes
        from tinygrad.uop.ops import AxisType, Ops, UOp

        renderer = Device["KILN"].renderer
        self.assertIsInstance(renderer, KilnRenderer)
        with self.assertRaises(kiln.Unimplemented) as caught:
            renderer.render([UOp(Ops.RANGE, dtypes.void, arg=(0, AxisType.LOOP))])
        self.assertEqual(caught.exception.code, "UNSUPPORTED_OP")
        self.assertIn("a loop that ends by a condition", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
