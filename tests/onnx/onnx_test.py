"""A few of the ONNX package's node tests of each family: `./dev onnx` runs all."""

import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import cases
import onnx
import op_rows

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RUNNER = pathlib.Path(os.environ.get("KILN_ONNX_RUNNER", ROOT / "bazel-bin" / "tests" / "onnx" / "onnx_runner"))

# Taken without any value offered.
PLAIN = """
test_add_bcast test_argmax_negative_axis_keepdims_example test_averagepool_2d_ceil test_batchnorm_epsilon
test_cast_FLOAT_to_FLOAT16 test_conv_with_strides_padding test_convtranspose_group_2 test_dequantizelinear_axis
test_div_uint8 test_einsum_batch_diagonal test_gather_negative_indices test_gathernd_example_int32_batch_dim1
test_gelu_tanh_1 test_gemm_all_attributes test_gru_with_initial_bias test_if test_layer_normalization_4d_axis1_expanded
test_logsoftmax_large_number test_lstm_with_peepholes test_matmul_4d test_maxpool_2d_dilations test_mod_mixed_sign_int8
test_nllloss_NCd1d2_with_weight test_pow_types_int32_float32 test_qlinearmatmul_2D_uint8_float32 test_quantizelinear_blocked_asymmetric
test_round test_scan9_sum test_scatter_elements_with_axis
test_scatternd_add test_softmax_axis_1 test_triu test_where_example
""".split()
# Whose shapes depend on an input.
OFFERED = """
test_constantofshape_float_ones test_expand_dim_changed test_loop11 test_onehot_with_axis test_range_int32_type_negative_delta
test_reflect_pad test_reshape_reordered_all_dims test_resize_downsample_scales_cubic test_slice_negative_axes
test_split_variable_parts_1d_opset18 test_squeeze_negative_axes test_tile test_top_k
""".split()
# Refused, with the reason.
REFUSED = {
    "test_nonzero_example": "how many elements are not 0",
    "test_string_concat": "string",
    "test_bernoulli": "this op is not taken",
}


class OnnxNodeTests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not RUNNER.exists():
            raise AssertionError("%s is not built: bazel build //tests/onnx:onnx_runner" % RUNNER)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.cases = {case.name: case for case in cases.load(wanted={*PLAIN, *OFFERED, *REFUSED})}
        cls.runner = cases.Runner(RUNNER, limit=600)
        cls.addClassCleanup(cls.runner.close)

    def run_case(self, name, offer=False):
        self.assertTrue(name in self.cases, "the package has no such test")
        return self.runner.run(self.cases[name], self.folder / ("%s-%d" % (name, offer)), offer)

    def test_plain_models_give_what_the_standard_says(self):
        for name in PLAIN:
            with self.subTest(name):
                self.assertEqual(self.run_case(name), ("passed", "", []))

    def test_shapes_by_input_are_refused_until_the_value_is_offered(self):
        for name in OFFERED:
            with self.subTest(name):
                verdict, reason, _ = self.run_case(name)
                self.assertEqual(verdict, "refused")
                self.assertIn("must be known when the model is imported", reason)
                verdict, reason, fixed = self.run_case(name, offer=True)
                self.assertEqual((verdict, reason), ("passed", ""))
                self.assertTrue(fixed)

    def test_what_is_not_taken_is_refused_by_name(self):
        for name, why in REFUSED.items():
            with self.subTest(name):
                verdict, reason, _ = self.run_case(name)
                self.assertEqual(verdict, "refused")
                self.assertIn(why, reason)


class Page(unittest.TestCase):
    """docs/onnx.md, which `./dev onnx` writes, has not been forgotten."""

    def test_each_op_of_the_standard_has_a_row(self):
        section = (ROOT / "docs" / "onnx.md").read_text().split("\n## Ops of the standard\n")[1].split("\n## ")[0]
        cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
        rows = {row[0]: row for row in cells[2:]}
        standard = {schema.name for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == ""}
        self.assertEqual(standard - set(rows), set())
        for name, (_, _, tested, passed, refused, why) in rows.items():
            with self.subTest(name):
                self.assertEqual(bool(tested), int(passed) + int(refused) > 0)
                self.assertEqual(bool(why), int(refused) > 0 or not tested)
                if name in op_rows.taken():
                    self.assertNotIn("not taken", why.replace("are not taken", ""))


if __name__ == "__main__":
    unittest.main()
